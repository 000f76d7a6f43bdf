use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A store that ended cleanly, with these many records.
fn whole(count: usize) -> (tempfile::TempDir, PathBuf, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coordd.db");
    let records: Vec<_> = (0..count)
        .map(|it| format!("{{\"number\":{it},\"pad\":\"{}\"}}", "p".repeat(200)))
        .collect();
    let mut store = open(&path).unwrap().store;
    store.commit(&records).unwrap();
    drop(store);
    (folder, path, records)
}

fn loaded(opened: &mut Opened) -> Vec<String> {
    opened.store.load().unwrap()
}

#[test]
fn rel39_the_files_are_closed_to_others() {
    let (folder, path, _) = whole(1);
    let _store = open(&path).unwrap();
    for name in ["coordd.db", "coordd.db-wal", "coordd.db-shm"] {
        let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// The files of a process that was killed: nothing was closed.
#[test]
fn d5_a_killed_writer_loses_nothing_that_was_committed() {
    let (folder, path, mut records) = whole(3);
    let mut store = open(&path).unwrap().store;
    store.commit(&["last".to_owned()]).unwrap();
    records.push("last".to_owned());
    let killed = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), killed.path().join(entry.file_name())).unwrap();
    }
    assert!(killed.path().join("coordd.db-wal").metadata().unwrap().len() > 0);
    let mut opened = open(&killed.path().join("coordd.db")).unwrap();
    assert_eq!(opened.damage, None);
    assert_eq!(loaded(&mut opened), records);
}

#[test]
fn rel48_a_newer_store_is_left_alone() {
    let (_folder, path, records) = whole(2);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, known: 1, .. }));
    let text = error.to_string();
    assert!(text.contains("newer coordd") && text.contains("update coordd, or move"), "{text}");
    assert_eq!(fs::read(&path).unwrap(), before);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 1).unwrap();
    assert_eq!(loaded(&mut open(&path).unwrap()), records);
}

#[test]
fn rel48_an_older_store_is_migrated_and_a_copy_kept() {
    let (folder, path, records) = whole(2);
    let steps = ["CREATE TABLE extra(x)", "INSERT INTO extra VALUES(7)"];
    let mut opened = open_with(&path, &steps).unwrap();
    assert_eq!(opened.damage, None);
    assert_eq!(loaded(&mut opened), records);
    drop(opened);
    let connection = Connection::open(&path).unwrap();
    let extra: i64 = connection.query_row("SELECT x FROM extra", [], |row| row.get(0)).unwrap();
    assert_eq!(extra, 7);
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 3);
    drop(connection);
    // The copy is a store of its own that the older program can use.
    let copy = folder.path().join("coordd.db.schema-1");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(loaded(&mut open(&copy).unwrap()), records);
}

#[test]
fn rel48_a_migration_that_fails_changes_nothing() {
    let (_folder, path, records) = whole(2);
    open_with(&path, &["CREATE TABLE extra(x)", "this is no statement"]).unwrap_err();
    let mut opened = open(&path).unwrap();
    assert_eq!(opened.damage, None);
    assert_eq!(loaded(&mut opened), records);
}

#[test]
fn rel41_garbage_is_set_aside_and_said() {
    let (_folder, path, _) = whole(1);
    fs::write(&path, "this is no database, and it is longer than a header of one hundred bytes would be, so that it is read").unwrap();
    let before = fs::read(&path).unwrap();
    let mut opened = open(&path).unwrap();
    let damage = opened.damage.clone().unwrap();
    assert_eq!(damage.rescued, 0);
    assert!(damage.set_aside.to_str().unwrap().contains("coordd.db.corrupt-"));
    assert_eq!(fs::read(&damage.set_aside).unwrap(), before);
    opened.store.commit(&["a".to_owned()]).unwrap();
    drop(opened);
    let mut opened = open(&path).unwrap();
    assert_eq!(opened.damage, None, "it is said once");
    assert_eq!(loaded(&mut opened), ["a"]);
}

#[test]
fn rel41_a_database_of_another_program_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coordd.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE record(x)").unwrap();
    let damage = open(&path).unwrap().damage.unwrap();
    assert_eq!(damage.cause, "it is not a store of coordd");
}

#[test]
fn rel41_rows_before_a_damaged_one_are_rescued() {
    let (_folder, path, records) = whole(50);
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE record SET body = body || 'x' WHERE seq = 31", [])
        .unwrap();
    let mut opened = open(&path).unwrap();
    assert_eq!(opened.damage.as_ref().unwrap().rescued, 30);
    assert_eq!(loaded(&mut opened), records[..30]);
    opened.store.commit(&["next".to_owned()]).unwrap();
    drop(opened);
    assert_eq!(loaded(&mut open(&path).unwrap()).len(), 31);
}

#[test]
fn rel41_a_row_that_is_missing_is_seen() {
    let (_folder, path, records) = whole(10);
    Connection::open(&path).unwrap().execute("DELETE FROM record WHERE seq = 4", []).unwrap();
    let mut opened = open(&path).unwrap();
    assert_eq!(opened.damage.as_ref().unwrap().rescued, 3);
    assert_eq!(loaded(&mut opened), records[..3]);
}

/// rel-41: whatever part of the file is cut off or overwritten, nothing is lost in silence.
#[test]
fn rel41_a_store_cut_off_or_overwritten_anywhere_is_never_silently_shorter() {
    let (folder, path, records) = whole(60);
    let good = fs::read(&path).unwrap();
    let reset = |bytes: &[u8]| {
        for entry in fs::read_dir(folder.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        fs::write(&path, bytes).unwrap();
    };
    let judge = |what: String| {
        let mut opened = open(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = loaded(&mut opened);
        match opened.damage {
            None => assert!(found == records, "{what}: {} in silence", found.len()),
            Some(damage) => {
                assert_eq!(found.len(), damage.rescued, "{what}");
                assert!(found == records[..found.len()], "{what}: {found:.200?}");
            }
        }
    };
    for len in (0..good.len()).step_by(509) {
        reset(&good[..len]);
        judge(format!("cut at {len}"));
    }
    for at in (0..good.len()).step_by(307) {
        let mut bad = good.clone();
        for byte in bad.iter_mut().skip(at).take(16) {
            *byte ^= 0x5A;
        }
        reset(&bad);
        // A header that names another version or another program is refused by that name.
        if (at..at + 16).any(|it| (60..64).contains(&it)) {
            continue;
        }
        judge(format!("overwritten at {at}"));
    }
}

#[test]
fn rel41_a_damaged_log_is_not_dropped_in_silence() {
    let (folder, path, records) = whole(3);
    let mut store = open(&path).unwrap().store;
    for number in 0..5 {
        store.commit(&[format!("late {number}")]).unwrap();
    }
    let killed = tempfile::tempdir().unwrap();
    for name in ["coordd.db", "coordd.db-wal"] {
        fs::copy(folder.path().join(name), killed.path().join(name)).unwrap();
    }
    let log = killed.path().join("coordd.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let mut opened = open(&killed.path().join("coordd.db")).unwrap();
    let damage = opened.damage.clone().unwrap();
    assert_eq!(damage.cause, "its write-ahead log is damaged");
    assert_eq!(fs::read(with(&damage.set_aside, "-wal")).unwrap(), bytes);
    let found = loaded(&mut opened);
    assert!(found.len() >= records.len() && found.len() < records.len() + 5, "{found:?}");
    assert_eq!(found.len(), damage.rescued);
}

#[test]
fn what_is_no_file_of_ours_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coordd.db");
    std::os::unix::fs::symlink("elsewhere", &path).unwrap();
    assert!(matches!(open(&path), Err(StoreError::NotAFile { found: "a symbolic link", .. })));
    assert!(!folder.path().join("elsewhere").exists());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(open(&path), Err(StoreError::NotAFile { .. })));
}

#[test]
fn rel41_a_log_whose_database_is_gone_is_set_aside() {
    let (folder, path, _) = whole(3);
    fs::remove_file(&path).unwrap();
    fs::write(folder.path().join("coordd.db-wal"), "x").unwrap();
    let damage = open(&path).unwrap().damage.unwrap();
    assert_eq!(damage.cause, "its main file is gone");
    assert!(with(&damage.set_aside, "-wal").exists());
}

#[test]
fn a_start_that_was_cut_off_is_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coordd.db");
    fs::write(folder.path().join("coordd.db.half"), "half").unwrap();
    assert!(open(&path).unwrap().damage.is_none());
    assert!(!folder.path().join("coordd.db.half").exists());
}
