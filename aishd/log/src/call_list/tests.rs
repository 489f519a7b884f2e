use proptest::prelude::*;
use serde_json::json;

use super::samples::list;
use super::*;

#[track_caller]
fn check(words: &str, expected: &str) {
    let said = match list(words) {
        Ok(list) => list.describe(),
        Err(error) => error.to_string(),
    };
    assert_eq!(expected, said, "{words}");
}

#[test]
fn a_list_runs_only_if_all_of_it_can() {
    check("a b<a c>a,b", "run 3 calls: t__runs, t__runs, t__runs");
    check("b<a a", "run 2 calls: t__runs, t__runs");
    check("", "the list has no calls");
    check("a a", "call 2 (\"a\"): the id is that of call 1 already");
    check(
        "a b<c",
        "call 2 (\"b\"): no call of the list has the id \"c\"",
    );
    check(
        "a>gone",
        "call 1 (\"a\"): no call of the list has the id \"gone\"",
    );
    check("a<a", "these calls wait for each other: a → a");
    check(
        "x a<c b<a c>b d<c",
        "these calls wait for each other: a → c → b → a",
    );
    let many: Vec<String> = (0..129).map(|it| format!("c{it}")).collect();
    check(
        &many.join(" "),
        "the list has 129 calls; at most 128 are taken",
    );
    let most = many[..128].join(" ");
    assert!(list(&most).unwrap().describe().ends_with(" and 120 more"));
}

/// What a client of the gateway sends is data, whatever it looks like.
#[test]
fn literal_arguments_are_no_references() {
    let arguments = json!({"$result": "x", "deep": [{"$result": "gone"}]});
    let call = |literal: Value| {
        json!({
            "id": "a", "method": "tools/call", "literal": literal,
            "params": {"name": "t__runs", "arguments": arguments},
        })
    };
    let list = parse(&[call(json!(true))]).unwrap();
    assert!(list.linked().unwrap()[0].uses.is_empty());
    let stored = serde_json::to_string(&list).unwrap();
    assert_eq!(list, serde_json::from_str(&stored).unwrap());
    let usual = serde_json::to_string(&self::list("a").unwrap()).unwrap();
    assert!(
        !usual.contains("literal"),
        "lists of older logs are as they were"
    );
    refused(call(json!(false)), "cannot be the whole");
    refused(call(json!(1)), "\"literal\" is true or false");
}

#[track_caller]
fn refused(request: Value, why: &str) {
    let error = parse(&[request]).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn what_is_not_understood_is_refused_with_its_place() {
    let call = |arguments: Value| json!({"id": "a", "method": "tools/call", "params": {"name": "t__x", "arguments": arguments}});
    refused(json!([]), "call 1: a call is a JSON-RPC request");
    refused(json!({"method": "tools/call"}), "call 1: it has no \"id\"");
    refused(
        json!({"id": 1.5}),
        "call 1: \"id\" is a text or a whole number",
    );
    refused(json!({"id": "a b"}), "1 to 36 letters, digits, - and _");
    refused(
        json!({"id": 7, "params": {}}),
        "call 1 (\"7\"): \"method\" is tools/call or resources/read",
    );
    refused(
        json!({"id": 7, "method": "tools/call"}),
        "it has no \"params\"",
    );
    refused(
        json!({"id": 7, "method": "tools/list", "params": {}}),
        "\"method\" is",
    );
    refused(json!({"id": 7, "afer": []}), "it cannot have \"afer\"");
    refused(json!({"id": 7, "jsonrpc": "1.0"}), "\"jsonrpc\" is \"2.0\"");
    refused(
        json!({"id": 7, "method": "tools/call", "params": {"name": ""}}),
        "\"params.name\" names a tool",
    );
    refused(
        json!({"id": 7, "method": "tools/call", "params": {"name": "x", "args": 1}}),
        "it cannot have \"params.args\"",
    );
    refused(
        json!({"id": 7, "method": "tools/call", "after": "x", "params": {"name": "x"}}),
        "\"after\" is a list of ids",
    );
    refused(
        json!({"id": 7, "method": "resources/read", "params": {"server": "s"}}),
        "\"params.uri\"",
    );
    refused(call(json!([])), "\"params.arguments\" is an object");
    refused(
        call(json!({"$result": "b"})),
        "call 1 (\"a\"): arguments: a result is put into a member",
    );
    refused(
        call(json!({"x": [{"$result": {}}]})),
        "arguments.x[0]: \"$result\" has to be the id",
    );
    refused(
        call(json!({"x": {"$result": "b", "y": 1}})),
        "arguments.x: beside \"$result\"",
    );
    refused(
        call(json!({"x": {"$result": "b", "pointer": "y"}})),
        "arguments.x: \"pointer\" is",
    );
    refused(
        call(json!({"x": "y".repeat(MAX_LIST_BYTES)})),
        "bytes long; at most 524288 are taken",
    );
}

#[test]
fn a_result_takes_the_place_of_its_reference() {
    let arguments =
        json!({"a": [1, {"b": {"$result": 7, "pointer": "/x/0"}}], "c": {"$result": "7"}});
    let Value::Object(mut arguments) = arguments else {
        unreachable!()
    };
    let found = reference::all(&arguments).unwrap();
    assert!(found.iter().all(|it| it.id == "7"));
    for it in &found {
        it.put(
            it.value("{\"x\": [{\"$result\": \"z\"}]}").unwrap(),
            &mut arguments,
        );
    }
    let expected =
        json!({"a": [1, {"b": {"$result": "z"}}], "c": "{\"x\": [{\"$result\": \"z\"}]}"});
    assert_eq!(expected, Value::Object(arguments));
    let pointed = &found[0];
    let why = |result: &str| pointed.value(result).unwrap_err();
    assert!(why("x").starts_with("the result of \"7\" is not JSON: "));
    assert_eq!("the result of \"7\" has nothing at \"/x/0\"", why("[]"));
    let long = "x".repeat(MAX_ARGUMENT_BYTES + 1);
    assert!(
        found[1]
            .value(&long)
            .unwrap_err()
            .contains("at most 262144")
    );
}

/// What is stored is what was written.
#[test]
fn a_stored_list_is_read_again() {
    let list = list("a b<a>a").unwrap();
    let stored = serde_json::to_string(&list).unwrap();
    assert_eq!(list, serde_json::from_str(&stored).unwrap());
    assert_eq!(
        r#"{"calls":[{"id":"a","name":"t__runs","arguments":{}},{"id":"b","name":"t__runs","arguments":{"from_a":{"$result":"a"}},"after":["a"]}]}"#,
        stored
    );
}

fn json_like() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "id",
        "a",
        "b",
        "method",
        "tools/call",
        "resources/read",
        "params",
        "name",
        "arguments",
        "after",
        "$result",
        "pointer",
        "/x",
        "t__x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((words.clone(), inner), 0..6).prop_map(|it| it
                .into_iter()
                .map(|(name, it)| (name.to_owned(), it))
                .collect()),
        ]
    })
}

proptest! {
    /// Whatever comes is a list or refused, and what it refuses it names.
    #[test]
    fn no_json_is_too_odd(requests in prop::collection::vec(json_like(), 0..5)) {
        if let Err(error) = parse(&requests) {
            prop_assert!(!error.to_string().is_empty());
        }
        let called: Vec<Value> = requests
            .into_iter()
            .enumerate()
            .map(|(at, it)| json!({"id": at, "method": "tools/call", "params": {"name": "t__x", "arguments": {"x": it}}}))
            .collect();
        let _refused_or_not = parse(&called);
    }
}
