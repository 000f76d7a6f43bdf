//! What a command left under a protected name that was free before. The kernel keeps what exists; for what does not exist there is
//! nothing that it could hold, and an empty file in its place would be litter.

use std::path::{Path, PathBuf};

use super::git;
use super::standing::Standing;

/// Most things that are named at one command's end: enough to see what it did. All are moved, however many they are.
const NAMED_MAX: usize = 64;

/// Moves what appeared and could run a program outside of the box out of the way, and says so.
pub(super) fn set_aside(before: &Standing, roots: &[PathBuf], to: &Path) -> Vec<String> {
    let after = Standing::of(roots);
    let mut findings: Vec<PathBuf> = after.files().difference(before.files()).cloned().collect();
    for bare in after.bare().difference(before.bare()) {
        findings.push(bare.join("HEAD"));
    }
    for repository in after.repositories() {
        match before.repository(&repository.git) {
            None if after.bare().contains(&repository.git) => {}
            None => {
                let file = repository.git.symlink_metadata().is_ok_and(|it| !it.is_dir());
                let harmless = if file {
                    git::worktree_of(&repository.git)
                        .is_some_and(|it| before.repository(&it).is_some())
                } else {
                    git::is_harmless(&repository.git)
                };
                if !harmless {
                    findings.push(repository.git.clone());
                }
            }
            Some(known) => {
                let new = repository.protected.iter().filter(|it| !known.protected.contains(it));
                findings.extend(new.filter(|it| !is_harmless(it)).cloned());
            }
        }
    }
    let now = after.links();
    let turned = before.links().iter().filter(|it| now.get(it.0) != Some(it.1));
    let mut said: Vec<String> =
        turned.filter_map(|(link, target)| turn_back(link, target, to)).collect();
    findings.sort();
    findings.dedup();
    said.extend(findings.iter().filter_map(|it| put_away(it, to)));
    let more = said.len().saturating_sub(NAMED_MAX);
    said.truncate(NAMED_MAX);
    if more > 0 {
        said.push(format!("[{more} more were moved to {}.]", to.display()));
    }
    said
}

/// Makes a link what it was. What stands there now is set aside.
fn turn_back(link: &Path, target: &Path, to: &Path) -> Option<String> {
    let said = put_away(link, to);
    match std::os::unix::fs::symlink(target, link) {
        Ok(()) => said,
        Err(_) => Some(format!(
            "[{} led to {} before. Make it so again.]",
            link.display(),
            target.display()
        )),
    }
}

/// What a repository that was there gets from git itself.
fn is_harmless(path: &Path) -> bool {
    let Some(folder) = path.parent() else { return false };
    match path.file_name().and_then(|it| it.to_str()) {
        Some("info") => path.symlink_metadata().is_ok_and(|it| it.is_dir()),
        // Of a worktree or submodule that was made now.
        Some("gitdir") => true,
        Some("commondir") => std::fs::read_to_string(path).is_ok_and(|it| it.trim() == "../.."),
        Some("config" | "config.worktree") => git::is_harmless_config(path),
        Some("hooks") => git::is_harmless(folder),
        _ => false,
    }
}

fn put_away(path: &Path, to: &Path) -> Option<String> {
    path.symlink_metadata().ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    if super::make_private(to).is_err() {
        return Some(format!("[{} cannot be set aside. Remove it.]", path.display()));
    }
    let free = |folder: &Path, name: &str| {
        (1..10_000)
            .map(|n| folder.join(format!("{name}.{n}")))
            .find(|it| it.symlink_metadata().is_err())
    };
    let away = free(to, &name)?;
    let beside = free(path.parent()?, &format!("{name}.set-aside"))?;
    // On another file system it stays beside, under a name that nobody reads.
    let done = [away, beside].into_iter().find(|it| std::fs::rename(path, it).is_ok());
    Some(match done {
        Some(at) => format!(
            "[{} was made by this command. It configures what runs outside of the sandbox, so it was moved to {}. To have it, \
             write it with Write or Edit, which asks the user.]",
            path.display(),
            at.display()
        ),
        None => {
            format!("[{} configures what runs outside of the sandbox. Remove it.]", path.display())
        }
    })
}
