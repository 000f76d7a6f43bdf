use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;

fn base() -> (tempfile::TempDir, Dir) {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::base(folder.path()).unwrap();
    (folder, dir)
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn rel1_a_missing_folder_is_made_closed() {
    let (folder, base) = base();
    let (_, found) = base.enter("a", Demand::Strict).unwrap();
    assert_eq!(found, Found::Created);
    assert_eq!(mode_of(&folder.path().join("a")), 0o700);
    assert_eq!(base.enter("a", Demand::Strict).unwrap().1, Found::Existing);
    assert!(base.existing("b", Demand::Strict).unwrap().is_none());
}

#[test]
fn rel1_what_is_no_folder_is_refused_by_its_cause() {
    let (folder, base) = base();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), folder.path().join("link")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for demand in [Demand::Repaired, Demand::Strict, Demand::Shared] {
        let refused = |name| base.enter(name, demand).unwrap_err();
        assert!(matches!(refused("link"), DirError::Symlink { .. }));
        assert!(matches!(refused("dangling"), DirError::Symlink { .. }));
        assert!(matches!(refused("file"), DirError::NotADirectory { found: "a file", .. }));
        assert!(matches!(refused("pipe"), DirError::NotADirectory { found: "a named pipe", .. }));
    }
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

/// Only root can give a folder away, so this one has nothing to look at elsewhere but `/`'s own
/// owner.
#[test]
fn rel1_a_folder_of_somebody_else_is_refused() {
    let (folder, base) = base();
    if euid() == 0 {
        fs::create_dir(folder.path().join("theirs")).unwrap();
        std::os::unix::fs::chown(folder.path().join("theirs"), Some(65534), None).unwrap();
        let error = base.enter("theirs", Demand::Repaired).unwrap_err();
        assert!(matches!(error, DirError::ForeignOwner { uid: 65534, .. }));
        assert!(error.to_string().contains("belongs to user 65534"));
    } else {
        let root = Dir::base(Path::new("/")).unwrap();
        let error = root.enter("usr", Demand::Repaired).unwrap_err();
        assert!(matches!(error, DirError::ForeignOwner { uid: 0, .. }));
    }
}

#[test]
fn rel1_a_loose_folder_is_refused_where_it_is_not_repaired() {
    let (folder, base) = base();
    let path = folder.path().join("loose");
    fs::create_dir(&path).unwrap();
    set_mode(&path, 0o755);
    let error = base.enter("loose", Demand::Strict).unwrap_err();
    assert!(matches!(error, DirError::BadMode { mode: 0o755, .. }));
    assert!(error.to_string().contains("chmod 700"));
    assert_eq!(base.enter("loose", Demand::Shared).unwrap().1, Found::Existing);
    assert_eq!(mode_of(&path), 0o755, "it was only looked at");
    set_mode(&path, 0o757);
    assert!(matches!(base.enter("loose", Demand::Shared), Err(DirError::BadMode { .. })));
}

#[test]
fn rel1_an_access_list_that_grants_is_refused() {
    let (folder, base) = base();
    let path = folder.path().join("listed");
    fs::create_dir(&path).unwrap();
    // Version 2, then owner rwx, user 65534 rwx, group none, mask rwx, others none.
    let mut list = vec![2, 0, 0, 0];
    for (tag, perm, id) in [
        (1_u16, 7_u16, u32::MAX),
        (2, 7, 65534),
        (4, 0, u32::MAX),
        (16, 7, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        list.extend(tag.to_le_bytes());
        list.extend(perm.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let set = rustix::fs::setxattr(
        &path,
        "system.posix_acl_access",
        &list,
        rustix::fs::XattrFlags::empty(),
    );
    if set == Err(Errno::OPNOTSUPP) {
        // This file system has no access lists, and then nobody can open a folder by one.
        return;
    }
    set.unwrap();
    assert!(matches!(base.enter("listed", Demand::Repaired), Err(DirError::Acl { .. })));
}

#[test]
fn rel2_a_folder_open_for_writing_is_closed_and_its_contents_moved_aside() {
    let (folder, base) = base();
    let victim = tempfile::tempdir().unwrap();
    let path = folder.path().join("root");
    fs::create_dir(&path).unwrap();
    symlink(victim.path(), path.join("proj")).unwrap();
    fs::write(path.join("file"), "x").unwrap();
    set_mode(&path, 0o777);
    let (dir, found) = base.enter("root", Demand::Repaired).unwrap();
    assert_eq!(found, Found::Repaired { quarantined: 2 });
    assert_eq!(mode_of(&path), 0o700);
    let (names, _) = dir.names(10).unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    let name = names[0].to_str().unwrap();
    assert!(name.starts_with(".quarantine-"));
    assert!(fs::symlink_metadata(path.join(name).join("proj")).unwrap().is_symlink());
    dir.enter("proj", Demand::Repaired).unwrap();
    assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0);
}

#[test]
fn rel2_a_folder_open_for_reading_only_keeps_its_contents() {
    let (folder, base) = base();
    let path = folder.path().join("root");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "x").unwrap();
    set_mode(&path, 0o755);
    let (dir, found) = base.enter("root", Demand::Repaired).unwrap();
    assert_eq!(found, Found::Repaired { quarantined: 0 });
    assert_eq!(dir.names(10).unwrap().0, ["file"]);
    assert_eq!(mode_of(&path), 0o700);
}

#[test]
fn rel1_a_base_that_others_can_change_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o777);
    assert!(matches!(Dir::base(folder.path()), Err(DirError::UnsafeParent { .. })));
    set_mode(folder.path(), 0o1777);
    Dir::base(folder.path()).unwrap();
    assert!(matches!(Dir::base(&folder.path().join("no")), Err(DirError::Missing { .. })));
    symlink("loop", folder.path().join("loop")).unwrap();
    assert!(matches!(Dir::base(&folder.path().join("loop")), Err(DirError::Loop { .. })));
}

#[test]
fn rel28_a_name_cannot_lead_elsewhere() {
    let (_folder, base) = base();
    let long = "x".repeat(300);
    for name in ["", ".", "..", "a/b", "/etc", "a\0b", &long] {
        assert!(
            matches!(base.enter(name, Demand::Strict), Err(DirError::BadName { .. })),
            "{name:?}"
        );
    }
}

#[test]
fn rel4_only_regular_files_of_ours_below_are_read() {
    let (folder, base) = base();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let (dir, _) = base.enter("d", Demand::Strict).unwrap();
    let path = folder.path().join("d");
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("sub/good"), "0123456789").unwrap();
    symlink(outside.path(), path.join("away")).unwrap();
    symlink(outside.path().join("secret"), path.join("link")).unwrap();
    symlink("sub/good", path.join("inner")).unwrap();
    fs::write(path.join("one"), "x").unwrap();
    fs::hard_link(path.join("one"), path.join("two")).unwrap();
    nix::unistd::mkfifo(&path.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let read = |name: &str| dir.read(Path::new(name), 100);
    assert_eq!(read("sub/good").unwrap(), Content { bytes: b"0123456789".to_vec(), cut: false });
    let cut = dir.read(Path::new("./sub/good"), 4).unwrap();
    assert_eq!(cut, Content { bytes: b"0123".to_vec(), cut: true });
    for name in ["away/secret", "link", "inner", "../d/one", "/etc/passwd", "sub/../one"] {
        assert!(matches!(read(name), Err(FileError::Outside { .. })), "{name}: {:?}", read(name));
    }
    assert!(matches!(read("one"), Err(FileError::Linked { .. })));
    assert!(matches!(read("pipe"), Err(FileError::NotRegular { found: "a named pipe", .. })));
    assert!(matches!(read("sub"), Err(FileError::NotRegular { found: "a folder", .. })));
    assert!(matches!(read("nope"), Err(FileError::Missing { .. })));
}

#[test]
fn rel4_opening_component_by_component_refuses_the_same() {
    let (folder, base) = base();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("sub/good"), "x").unwrap();
    symlink(outside.path(), folder.path().join("away")).unwrap();
    symlink("good", folder.path().join("sub/link")).unwrap();
    let open = |path: &str| {
        let names = beneath::plain_components(Path::new(path)).unwrap();
        beneath::open_by_component(&base, &names, OFlags::RDONLY).map(drop)
    };
    assert_eq!(open("sub/good"), Ok(()));
    assert_eq!(open("away/secret"), Err(Errno::LOOP));
    assert_eq!(open("sub/good/x"), Err(Errno::NOTDIR));
    assert_eq!(open("sub/link"), Err(Errno::LOOP));
    assert_eq!(open("sub/none"), Err(Errno::NOENT));
    assert_eq!(beneath::plain_components(Path::new("../x")), Err(Errno::XDEV));
    assert_eq!(beneath::plain_components(Path::new(&"a/".repeat(100))), Err(Errno::NAMETOOLONG));
}

#[test]
fn rel39_a_file_is_replaced_whole_and_nothing_is_left_over() {
    let (folder, base) = base();
    let (dir, _) = base.enter("d", Demand::Strict).unwrap();
    dir.write_atomic("f", b"one").unwrap();
    let path = folder.path().join("d/f");
    let first = fs::metadata(&path).unwrap().ino();
    // A writer that died left its half.
    fs::write(folder.path().join("d/.tmp-coordd-f"), "half").unwrap();
    dir.write_atomic("f", b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_ne!(fs::metadata(&path).unwrap().ino(), first);
    assert_eq!(mode_of(&path), 0o600);
    assert_eq!(dir.names(10).unwrap().0, ["f"]);
    // A folder in the way: the write fails and its temporary file is gone.
    fs::create_dir(folder.path().join("d/g")).unwrap();
    dir.write_atomic("g", b"x").unwrap_err();
    assert_eq!(dir.names(10).unwrap().0.len(), 2);
}

#[test]
fn setting_aside_never_overwrites() {
    let (_folder, base) = base();
    let (dir, _) = base.enter("d", Demand::Strict).unwrap();
    for expected in ["f.old", "f.old-2", "f.old-3"] {
        dir.write_atomic("f", b"x").unwrap();
        assert_eq!(dir.set_aside("f", "f.old").unwrap(), expected);
    }
    assert!(matches!(dir.set_aside("f", "f.old"), Err(FileError::Missing { .. })));
}

#[test]
fn rel5_a_tree_is_removed_without_following_links() {
    let (folder, base) = base();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("canary"), "alive").unwrap();
    let top = folder.path().join("top");
    let mut deep = top.clone();
    for _ in 0..300 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), "x").unwrap();
    symlink(outside.path(), top.join("link")).unwrap();
    symlink(outside.path(), deep.join("link")).unwrap();
    fs::create_dir_all(top.join("locked/in")).unwrap();
    fs::write(top.join("locked/in/f"), "x").unwrap();
    set_mode(&top.join("locked/in"), 0o000);
    set_mode(&top.join("locked"), 0o500);
    set_mode(&top, 0o700);
    let removal = base.remove_tree("top").unwrap();
    assert!(removal.is_complete(), "{removal:?}");
    assert!(!top.exists());
    assert_eq!(fs::read(outside.path().join("canary")).unwrap(), b"alive");
    assert_eq!(base.remove_tree("top").unwrap().removed, 0, "a second call has nothing to do");
}

/// rel-5, CVE-2022-21658: a folder that is exchanged for a link while it is removed is not
/// followed.
#[test]
fn rel5_a_swap_of_folder_and_link_does_not_win() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (folder, base) = base();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("canary"), "alive").unwrap();
    let top = folder.path().join("top");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each step may fail: the remover is faster now and then.
            while !stop.load(Ordering::Relaxed) {
                drop(fs::create_dir(top.join("swap")));
                drop(fs::write(top.join("swap/canary"), "bait"));
                drop(fs::rename(top.join("swap"), top.join("gone")));
                drop(symlink(outside.path(), top.join("swap")));
                drop(fs::remove_file(top.join("swap")));
            }
        });
        for _ in 0..2_000 {
            let (dir, _) = base.enter("top", Demand::Repaired).unwrap();
            dir.empty().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read(outside.path().join("canary")).unwrap(), b"alive");
}

#[test]
fn a_log_is_appended_to_and_no_pipe_blocks_it() {
    use std::io::Write as _;
    let (folder, base) = base();
    let (dir, _) = base.enter("d", Demand::Strict).unwrap();
    dir.append("log").unwrap().write_all(b"a").unwrap();
    dir.append("log").unwrap().write_all(b"b").unwrap();
    assert_eq!(fs::read(folder.path().join("d/log")).unwrap(), b"ab");
    assert_eq!(mode_of(&folder.path().join("d/log")), 0o600);
    nix::unistd::mkfifo(&folder.path().join("d/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(dir.append("pipe"), Err(FileError::NotRegular { .. })));
    symlink("/dev/null", folder.path().join("d/link")).unwrap();
    assert!(matches!(dir.append("link"), Err(FileError::NotRegular { .. })));
}
