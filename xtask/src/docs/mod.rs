//! `cargo xtask docs`: what is written about the project holds together. (That the commands on the pages work is tested by the layer e2e.)

pub mod figures;
mod links;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::layers::{Step, run_steps};
use crate::workspace::{Workspace, cargo, files, is_installed, read, run};

pub fn run_checks(workspace: &Workspace) -> Result<()> {
    let mut checks: Vec<Step> = vec![
        ("links lead somewhere", Box::new(|| links::check(workspace))),
        ("every page is in the book", Box::new(|| check_summary(workspace))),
        ("figures are those measured", Box::new(|| figures::check(workspace))),
        ("pages of the crates", Box::new(|| document_crates(workspace))),
    ];
    if is_installed("mdbook") {
        checks.push(("the book", Box::new(|| build_book(workspace))));
    } else {
        println!("mdbook is not installed: the book itself is left out");
    }
    run_steps("docs", &checks)
}

/// README and the pages of the book.
fn pages(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let mut pages = files(&workspace.root.join("docs"), &["md"])?;
    pages.push(workspace.root.join("README.md"));
    Ok(pages)
}

fn check_summary(workspace: &Workspace) -> Result<()> {
    let docs = workspace.root.join("docs");
    let summary = read(&docs.join("SUMMARY.md"))?;
    for page in files(&docs, &["md"])? {
        let name = page.strip_prefix(&docs)?.display().to_string();
        ensure!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "docs/SUMMARY.md does not name {name}");
    }
    Ok(())
}

fn document_crates(workspace: &Workspace) -> Result<()> {
    run(cargo().args(["doc", "--quiet", "--no-deps", "--workspace"]).env("RUSTDOCFLAGS", "-D warnings").current_dir(&workspace.root))
}

/// mdbook goes on after a warning, such as a page that is not there.
fn build_book(workspace: &Workspace) -> Result<()> {
    let mut mdbook = std::process::Command::new("mdbook");
    let built = mdbook.args(["build", "--dest-dir"]).arg(workspace.target.join("book")).current_dir(&workspace.root);
    let built = built.output().context("cannot run mdbook")?;
    let said = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success() && !said.contains("WARN"), "mdbook says:\n{said}");
    Ok(())
}
