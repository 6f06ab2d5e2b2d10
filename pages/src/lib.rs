//! Man pages and shell completions, made from what a program itself says of its arguments.
//!
//! `PROGRAM --write-pages DIR` writes them, laid out as below a prefix's `share`; the build calls each program so.
#![forbid(unsafe_code)]
use clap::Command;
use clap_complete::Shell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

const OPTION: &str = "--write-pages";

/// To be called before arguments are parsed. Some: the pages were what was asked for, and this is the program's exit status.
pub fn write_if_asked(command: impl FnOnce() -> Command) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != OPTION {
        return None;
    }
    let (directory, None) = (arguments.next()?, arguments.next()) else { return None };
    Some(match write(command(), &directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: cannot write pages: {error}", directory.to_string_lossy());
            ExitCode::FAILURE
        }
    })
}

fn write(mut command: Command, share: &OsString) -> io::Result<()> {
    let man = Path::new(share).join("man/man1");
    fs::create_dir_all(&man)?;
    // First, and of a copy: making completions adds commands for help, which need no pages.
    clap_mangen::generate_to(command.clone().disable_help_subcommand(true), man)?;
    let name = command.get_name().to_owned();
    let places = [
        (Shell::Bash, "bash-completion/completions", name.clone()),
        (Shell::Zsh, "zsh/site-functions", format!("_{name}")),
        (Shell::Fish, "fish/vendor_completions.d", format!("{name}.fish")),
    ];
    for (shell, place, file) in places {
        let place = Path::new(share).join(place);
        fs::create_dir_all(&place)?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, &name, &mut text);
        fs::write(place.join(file), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_commands_has_a_page_for_each_and_completions_for_three_shells() {
        let directory = tempfile::tempdir().unwrap();
        let command = Command::new("tool").about("Does things").subcommand(Command::new("look").about("Looks at things"));
        write(command, &directory.path().as_os_str().to_owned()).unwrap();
        let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        assert!(read("man/man1/tool.1").contains("Does things"));
        assert!(read("man/man1/tool-look.1").contains("Looks at things"));
        for file in ["bash-completion/completions/tool", "zsh/site-functions/_tool", "fish/vendor_completions.d/tool.fish"] {
            assert!(read(file).contains("look"), "{file}");
        }
        assert_eq!(fs::read_dir(directory.path().join("man/man1")).unwrap().count(), 2);
    }
}
