//! The server's side of trust: NATS credentials, nkeys, tokens, TLS with an authority of one's own.
//! The wrong ones are refused with words, and what is changed while the bridge is connected is said
//! and can be mended.

use std::path::Path;
use std::process::Command;

use nkeys::KeyPair;
use tests::nats::{Server, TOKEN};

use super::accounts::Operator;
use super::hosts::{Host, folder, introduce, talk};

const REFUSED: &str = "refuses the credentials";

fn openssl(folder: &Path, script: &str) {
    let ran = Command::new("/bin/sh").args(["-ec", script]).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Two authorities; of the first a server's certificate, and of each a machine's.
pub(super) fn authorities(folder: &Path) {
    openssl(
        folder,
        "new() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key -out $1.crt \
         -days 2 -subj /CN=$1 -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign; }
         new ca; new other
         one() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key -out $1.csr -subj /CN=$1
         printf \"$3\\nbasicConstraints=CA:FALSE\" >ext
         openssl x509 -req -in $1.csr -CA $2.crt -CAkey $2.key -CAcreateserial -days 2 -out $1.crt -extfile ext; }
         one srv ca 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth'
         one machine ca extendedKeyUsage=clientAuth
         one stranger other extendedKeyUsage=clientAuth
         chmod 600 *.key",
    );
}

fn hosts() -> (Host, Host) {
    (Host::start(&[]), Host::start(&[]))
}

#[test]
fn m7_tls_with_an_own_authority_and_nkeys() {
    let folder = folder();
    authorities(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pair = KeyPair::new_user();
    let config = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\" }}\nauthorization {{ users: [ {{ nkey: {} }} ] }}",
        at("srv.crt"),
        at("srv.key"),
        pair.public_key(),
    );
    let server = Server::start_with(&folder.path().join("server"), &[], "127.0.0.1", &config);
    let url = server.url().replace("nats:", "tls:");
    let (mut a, mut b) = hosts();
    let seed = a.secret("seed", &pair.seed().unwrap());
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&seed, mode(0o640)).unwrap();
    let open = a.daemon.coordctl(&["bridge", "add", &url, "--nkey-file", &seed]);
    assert!(open.code == 1 && open.stderr.contains("chmod"), "{open:?}");
    std::fs::set_permissions(&seed, mode(0o600)).unwrap();

    a.join_with(&[&url, "--ca", &at("other.crt"), "--nkey-file", &seed]);
    a.says("check --ca");
    a.join_with(&[&url, "--nkey-file", &seed]);
    a.says("check --ca");
    a.join_with(&[&url, "--ca", &at("ca.crt")]);
    a.says(REFUSED);
    for host in [&a, &b] {
        host.join_with(&[&url, "--ca", &at("ca.crt"), "--nkey-file", &seed]);
    }
    introduce(&mut a, &mut b);
    talk(&mut a, &mut b);
}

#[test]
fn m7_a_machine_shows_a_certificate_of_its_own() {
    let folder = folder();
    authorities(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}",
        at("srv.crt"),
        at("srv.key"),
        at("ca.crt"),
    );
    let server = Server::start_with(&folder.path().join("server"), &[], "127.0.0.1", &config);
    let url = server.url().replace("nats:", "tls:");
    let (mut a, mut b) = hosts();
    let ca = at("ca.crt");
    a.join_with(&[&url, "--ca", &ca]);
    a.says("--certificate");
    let strange = [("stranger.crt", "stranger.key")].map(|(it, key)| (at(it), at(key)));
    let [(certificate, key)] = &strange;
    a.join_with(&[&url, "--ca", &ca, "--certificate", certificate, "--key", key]);
    a.says("--certificate");
    let alone = a.daemon.coordctl(&["bridge", "add", &url, "--certificate", certificate]);
    assert!(alone.code != 0 && alone.stderr.contains("--key"), "{alone:?}");
    for host in [&a, &b] {
        let (certificate, key) = (at("machine.crt"), at("machine.key"));
        host.join_with(&[&url, "--ca", &ca, "--certificate", &certificate, "--key", &key]);
    }
    introduce(&mut a, &mut b);
    talk(&mut a, &mut b);
}

#[test]
fn m7_a_credentials_file_is_shown_as_nsc_wrote_it() {
    let folder = folder();
    let operator = Operator::new();
    let at = folder.path().join("server");
    let server = Server::start_with(&at, &[], "127.0.0.1", &operator.config);
    let (mut a, mut b) = hosts();
    let strange = a.secret("strange.creds", &Operator::new().credentials());
    a.join_with(&[&server.url(), "--credentials", &strange]);
    a.says(REFUSED);
    for host in [&a, &b] {
        let file = host.secret("machine.creds", &operator.credentials());
        host.join_with(&[&server.url(), "--credentials", &file]);
    }
    introduce(&mut a, &mut b);
    talk(&mut a, &mut b);
    // What is no such file is said at once.
    let garbage = a.secret("garbage", "not a file of nsc\n");
    let refused = a.daemon.coordctl(&["bridge", "add", &server.url(), "--credentials", &garbage]);
    assert!(
        refused.code == 1 && refused.stderr.contains("the format that `nsc` writes"),
        "{refused:?}"
    );
}

/// rel-74: the password is changed while the bridge is connected.
fn changed(old: &str, new: &str, flag: &str, secrets: [&str; 2]) {
    let folder = folder();
    let mut server = Server::start_with(&folder.path().join("server"), &[], "127.0.0.1", old);
    let (mut a, mut b) = hosts();
    let join = |host: &Host, secret: &str| {
        host.join_with(&[&server.url(), flag, &host.secret("secret", secret)]);
    };
    let [before, after] = secrets;
    join(&a, before);
    join(&b, before);
    introduce(&mut a, &mut b);
    talk(&mut a, &mut b);
    let to_b = a.address();
    server.reload(new);
    a.says(REFUSED);
    b.says(REFUSED);
    let id = a.send(&to_b, "said meanwhile");
    let join = |host: &Host, secret: &str| {
        host.join_with(&[&server.url(), flag, &host.secret("secret", secret)]);
    };
    join(&a, after);
    join(&b, after);
    assert!(b.read_one().text.contains("said meanwhile"));
    a.wait_for(&id, proto::message::MessageState::Consumed);
    talk(&mut a, &mut b);
}

#[test]
fn rel74_a_token_that_is_changed_is_said_and_nothing_is_lost() {
    let old = format!("authorization {{ token: \"{TOKEN}\" }}");
    let new = "authorization { token: \"another-token\" }";
    changed(&old, new, "--token-file", [TOKEN, "another-token"]);
}

#[test]
fn rel74_an_nkey_that_is_changed_is_said_and_nothing_is_lost() {
    let pairs = [KeyPair::new_user(), KeyPair::new_user()];
    let [old, new] = pairs
        .each_ref()
        .map(|it| format!("authorization {{ users: [ {{ nkey: {} }} ] }}", it.public_key()));
    let [before, after] = pairs.map(|pair| pair.seed().unwrap());
    changed(&old, &new, "--nkey-file", [&before, &after]);
}
