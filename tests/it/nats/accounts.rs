//! Operator, accounts and users as `nsc` makes them, for a test: signed tokens of NATS, version 2,
//! as server 2.15 takes them.

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// What a server is told, and what signs users.
pub(super) struct Operator {
    pub(super) config: String,
    account: KeyPair,
}

fn token(signer: &KeyPair, subject: &KeyPair, name: &str, nats: &Value) -> String {
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({
        "jti": name, "iat": 1_700_000_000, "iss": signer.public_key(), "sub": subject.public_key(),
        "name": name, "nats": nats,
    });
    let encode = |it: &Value| BASE64URL_NOPAD.encode(it.to_string().as_bytes());
    let text = format!("{}.{}", encode(&header), encode(&claims));
    let signature = signer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", BASE64URL_NOPAD.encode(&signature))
}

impl Operator {
    /// With one account that has JetStream, in the server's memory.
    pub(super) fn new() -> Self {
        let (operator, account, system) =
            (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
        let own = token(&operator, &operator, "op", &json!({"type": "operator", "version": 2}));
        let limits = |disk: i64| {
            let unlimited = json!({
                "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
                "conn": -1, "leaf": -1, "mem_storage": 0, "disk_storage": disk, "streams": disk, "consumer": disk,
            });
            json!({"limits": unlimited, "type": "account", "version": 2})
        };
        let mail = token(&operator, &account, "mail", &limits(-1));
        let sys = token(&operator, &system, "sys", &limits(0));
        let (account_key, system_key) = (account.public_key(), system.public_key());
        let config = format!(
            "operator: {own}\nsystem_account: {system_key}\nresolver: MEMORY\n\
             resolver_preload: {{ {account_key}: {mail}, {system_key}: {sys} }}"
        );
        Self { config, account }
    }

    /// The credentials file of a new user.
    pub(super) fn credentials(&self) -> String {
        let user = KeyPair::new_user();
        let nats = json!({
            "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2,
        });
        let jwt = token(&self.account, &user, "machine", &nats);
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}
