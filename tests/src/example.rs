//! The examples, as a user builds and runs them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, run};
use crate::{compile, stage};

/// An example in a directory of its own, linked with libundolr as the documentation says.
pub struct Example {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Example {
    /// Panics if it does not build.
    pub fn build(name: &str) -> Example {
        let directory = tempfile::tempdir().unwrap();
        let source = Example::source(name);
        let (include, library) = (stage::stage().join("include"), stage::stage().join("lib"));
        let flags = [
            format!("-I{}", include.display()),
            format!("-L{}", library.display()),
            format!("-Wl,-rpath,{}", library.display()),
            "-lundolr".into(),
        ];
        let program = compile::compile(&source, &flags.each_ref().map(String::as_str), directory.path()).unwrap();
        Example { directory, program }
    }

    pub fn source(name: &str) -> PathBuf {
        stage::source().join("../examples").join(name).with_extension("c")
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        let mut argv: Vec<OsString> = vec![self.program.clone().into()];
        argv.extend(arguments.iter().map(OsString::from));
        run(&argv, self.path(), b"").unwrap()
    }

    /// The files whose names end so, sorted.
    pub fn files(&self, ending: &str) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.to_string_lossy().ends_with(ending));
        files.sort();
        files
    }

    /// Removes what runs have left, so that only the next one's is there.
    pub fn clear(&self) {
        for file in [self.files(".undo"), self.files(".shmem")].concat() {
            fs::remove_file(file).unwrap();
        }
    }
}
