//! W-13: the box in which commands run, by itself: what `coordd-sandbox` holds, and that it ends as the command does.

use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use coordd_sandbox::{Abilities, Level};
use tests::boxes::{Place, boxed};
use tests::sandbox::program;

const LEVELS: [Level; 2] = [Level::Namespaces, Level::Landlock];

fn text(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// W-13: what the machine can do is found out by doing it.
#[test]
fn w13_the_machine_says_what_it_can_do() {
    let output =
        std::process::Command::new(program("coordd-sandbox")).arg("--probe").output().unwrap();
    let abilities: Abilities = serde_json::from_slice(&output.stdout).unwrap();
    eprintln!("{abilities:?}");
    assert_eq!(abilities.level(), Some(Level::Namespaces), "{abilities:?}");
    assert_eq!(abilities.no_landlock, None);
}

/// W-13: a setting that forbids namespaces is named.
#[test]
fn w13_a_setting_in_the_way_is_named() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" --probe";
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .arg(program("coordd-sandbox"))
        .output()
        .unwrap();
    let abilities: Abilities = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let obstacle = abilities.no_namespaces.clone().expect("an obstacle");
    assert!(obstacle.remedy.contains("user.max_user_namespaces"), "{obstacle:?}");
    assert_eq!(abilities.level(), Some(Level::Landlock), "{abilities:?}");
}

/// W-13: only what the policy names can be written, and what it hides cannot be read, on both levels.
#[test]
fn w13_only_what_is_writable_is_written_and_what_is_hidden_is_not_read() {
    for level in LEVELS {
        let place = Place::new(level);
        let beside = place.at("beside");
        let beside = beside.display();
        place.say("echo in > here; mkdir -p a/b; mv here a/b; echo x > /dev/null");
        assert_eq!(text(&place.at("w/a/b/here")), "in\n", "{level:?}");
        let said =
            place.say(&format!("echo out > {beside}; rm -f {beside}; mv {beside} .; : > ../new"));
        assert_eq!(text(&place.at("beside")), "as it was\n", "{level:?}: {said}");
        assert!(!place.at("new").exists(), "{level:?}: {said}");
        let said = place
            .say("cat ../secret/key; cp -r ../secret mine; ls /etc > /dev/null && cat ../beside");
        assert!(!said.contains("the key"), "{level:?}: {said}");
        assert!(!place.at("w/mine/key").exists(), "{level:?}");
        assert!(said.contains("as it was"), "all else is read: {level:?}: {said}");
    }
}

/// W-13: inside of what can be written, parts stay as they are, and keep their names.
#[test]
fn w13_protected_parts_of_a_workspace_stay() {
    let mut place = Place::new(Level::Namespaces);
    std::fs::create_dir_all(place.at("w/.git/hooks")).unwrap();
    std::fs::write(place.at("w/.git/config"), "[core]\n").unwrap();
    place.policy.pinned.push(place.at("w/.git").into());
    for name in ["w/.git/config", "w/.git/hooks", "w/.git/gone"] {
        place.policy.read_only.push(place.at(name).into());
    }
    let said = place.say(
        "echo evil >> .git/config; rm -rf .git/config; : > .git/hooks/pre-commit; mv .git x; \
         mv .git/hooks h; ln -sf /x .git/config; cp /etc/passwd .git/config; echo fine > .git/HEAD",
    );
    assert_eq!(text(&place.at("w/.git/config")), "[core]\n", "{said}");
    assert!(!place.at("w/.git/hooks/pre-commit").exists() && !place.at("w/x").exists(), "{said}");
    assert_eq!(text(&place.at("w/.git/HEAD")), "fine\n", "{said}");
    assert!(!place.at("w/.git/gone").exists(), "no placeholder is left");
}

/// W-13: it ends as the command ended; the caller sees no difference.
#[test]
fn w13_it_ends_as_the_command_does() {
    for level in LEVELS {
        let place = Place::new(level);
        for code in [0, 1, 3, 125, 255] {
            assert_eq!(place.run(&format!("exit {code}")).status.code(), Some(code), "{level:?}");
        }
        for signal in [6, 9, 11, 15] {
            let status = place.run(&format!("kill -{signal} $$")).status;
            assert_eq!(status.signal(), Some(signal), "{level:?} {status:?}");
        }
        let output = place.run("yes | head -n 1; echo out; echo err >&2; pwd");
        let expected = format!("y\nout\n{}\n", place.at("w").display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{level:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "err\n", "{level:?}");
    }
}

/// W-13: it does not wait for what the command left running, and that goes on until somebody ends it.
#[test]
fn w13_what_is_left_running_holds_nothing_up() {
    let place = Place::new(Level::Namespaces);
    let start = Instant::now();
    let mut command =
        place.command("(while [ ! -e go ]; do :; done; : > went; ) > /dev/null 2>&1 & exit 4");
    assert_eq!(command.status().unwrap().code(), Some(4));
    assert!(start.elapsed() < Duration::from_secs(20));
    std::fs::write(place.at("w/go"), "").unwrap();
    tests::wait::until("what was left to go on", || place.at("w/went").exists().then_some(()));
}

/// W-13: no box with a wall missing: whatever cannot be done, the command does not run.
#[test]
fn w13_a_box_that_cannot_be_built_runs_nothing() {
    let with = |change: fn(&mut Place)| {
        let mut place = Place::new(Level::Namespaces);
        change(&mut place);
        let output = place.run("touch ran");
        assert!(!place.at("w/ran").exists(), "{output:?}");
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.ends_with("the command did not run\n") && said.lines().count() == 1, "{said}");
        said
    };
    let said = with(|place| place.policy.writable[0].from = place.at("gone").into());
    assert!(said.contains("/gone cannot be made writable"), "{said}");
    assert!(with(|place| place.policy.cwd = place.at("gone").into()).contains("gone"));
    assert!(with(|place| place.policy.version = 2).contains("of version 2"));
    // A link where a folder was named: somebody has put another place under the name.
    with(|place| {
        std::os::unix::fs::symlink("/etc", place.at("link")).unwrap();
        place.policy.writable[0].from = place.at("link").into();
    });
    with(|place| {
        std::fs::rename(place.at("secret"), place.at("real")).unwrap();
        std::os::unix::fs::symlink("real", place.at("secret")).unwrap();
    });
    let place = Place::new(Level::Namespaces);
    std::fs::write(place.at("p"), "{}").unwrap();
    assert_eq!(boxed(&place.at("p"), &["/bin/true"]).output().unwrap().status.code(), Some(125));
    let missing = boxed(&place.at("none"), &["/bin/true"]).output().unwrap();
    assert!(!missing.status.success());
}

/// W-13: an ordinary user has the same walls as root.
#[test]
fn w13_an_ordinary_user_has_the_same_box() {
    let as_root = if rustix::process::getuid().is_root() { "" } else { "sudo -n " };
    let place = Place::new(Level::Namespaces);
    drop(place.command("true"));
    let script = format!(
        "set -e; {as_root}chown -R 65534:65534 {0}; {as_root}chmod 755 {0}; \
         {as_root}setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'exec 9< {0}/policy.json; \
         exec {1} --policy 9 -- /bin/bash -c \"id -u; echo in > here; echo out > {0}/beside; cat {0}/secret/key; ls /proc | grep -c ^[0-9]\"' 2>&1",
        place.at("").display(),
        program("coordd-sandbox").display()
    );
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text(&place.at("w/here")), "in\n", "{said} {output:?}");
    assert_eq!(text(&place.at("beside")), "as it was\n", "{said}");
    assert!(said.starts_with("65534\n") && !said.contains("the key"), "{said}");
}

/// W-13: what a box costs, alternating with a plain shell. The wall time is printed; what is held is the processor's time, since
/// a busy machine makes everything wait.
#[test]
fn w13_a_box_costs_little() {
    const ROUNDS: u32 = 200;
    const OVER_MS: u64 = 8;
    let place = Place::new(Level::Namespaces);
    let mut boxed = place.command("true");
    let mut plain = std::process::Command::new("/bin/sh");
    plain.args(["-c", "exec \"$@\"", "sh", "/bin/bash", "-c", "true"]);
    let time = |command: &mut std::process::Command| {
        let (start, spent) = (Instant::now(), spent_by_children_ms());
        assert!(command.status().unwrap().success());
        (start.elapsed(), spent_by_children_ms() - spent)
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(time(&mut plain));
        with.push(time(&mut boxed));
    }
    let spent = |rounds: &[(Duration, u64)]| rounds.iter().map(|it| it.1).sum::<u64>();
    let over_ms = spent(&with).saturating_sub(spent(&without)) / u64::from(ROUNDS);
    with.sort();
    without.sort();
    let median = |rounds: &[(Duration, u64)]| rounds[rounds.len() / 2].0;
    let over = median(&with).saturating_sub(median(&without));
    eprintln!("a boxed `true` takes {over:?} more at p50, {over_ms} ms of them the processor's");
    assert!(over_ms <= OVER_MS, "{over_ms} ms");
}

/// What processes that have ended below this one took of the processor.
fn spent_by_children_ms() -> u64 {
    let line = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = line.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap();
    ticks * 10
}
