//! What the built-in providers offer.

use aishd_rules::read_extent::PATH_ARGUMENTS;

use super::*;

/// Each tool says which parameters it takes, and takes no others; but the clock tells the time whatever is said.
#[test]
fn every_schema_is_of_its_own_tool_and_of_nothing_else() {
    let mut offered = vec![];
    for tool in tools() {
        let properties = tool.schema["properties"].as_object().unwrap();
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let closed = tool.schema["additionalProperties"] == false;
        assert_eq!(
            tool.name.to_string() != "aish__time",
            closed,
            "{}",
            tool.name
        );
        assert!(jsonschema::meta::is_valid(&tool.schema), "{}", tool.name);
        assert!(tool.name.alias().is_own(), "{}", tool.name);
        let level = tool.needs.number();
        offered.push(format!("{} {level} {}", tool.name, names.join(" ")));
    }
    let expected = [
        "aish__time 1 ",
        "aish__read_result 1 bytes offset result",
        "aish__find_tools 1 query",
        "aish__read_resource 1 server uri",
        "data-tool__create-resource 2 data name",
        "data-tool__read-resource 1 name",
        "data-tool__update-resource 2 data expectedRevision name",
        "data-tool__delete-resource 2 expectedRevision name",
        "data-tool__list-resources 1 after limit",
        "data-tool__validate-resource 1 name schema",
        "example-tool__greet 1 ",
        "example-tool__echo 1 resource text",
        "files__read 1 file_path limit offset",
        "files__list 1 all depth glob limit path sort",
        "files__search 1 after all before context glob head_limit ignore_case literal offset output_mode path pattern type",
        "files__edit 2 edits file_path new_string old_string replace_all",
        "files__write 2 content file_path",
        "shell__output 1 job wait",
        "shell__stop 1 job",
        "todo__write 1 todos",
        "todo__read 1 ",
        "web__fetch 1 offset url",
    ];
    assert_eq!(expected.to_vec(), offered);
}

#[test]
fn what_changes_something_is_no_tool_that_reads() {
    for tool in tools().filter(|it| is_builtin(&it.name)) {
        let writes = tool.needs > Access::Read;
        // Calls of these come one after another: of two lists the second counts, one host is asked about once, and what a job has
        // printed is read once.
        let alone = ["shell__output", "shell__stop", "todo__write", "web__fetch"];
        if alone.contains(&tool.name.to_string().as_str()) {
            continue;
        }
        assert_eq!(
            (!writes, !writes),
            (tool.reads_only, tool.annotations["readOnlyHint"] == true),
            "{}",
            tool.name
        );
        assert!(
            !(writes && tool.reach == ToolReach::Conversation),
            "{}",
            tool.name
        );
    }
}

/// It runs unasked only within the conversation's directories, and rules look for paths under these names alone.
#[test]
fn what_reads_within_directories_names_its_path_as_rules_know_it() {
    let held = tools().filter(|it| it.reach == ToolReach::HeldReading);
    let names: Vec<String> = held
        .map(|tool| {
            let taken = tool.schema["properties"].as_object().unwrap();
            let judged = PATH_ARGUMENTS.iter().any(|it| taken.contains_key(*it));
            assert!(judged, "{}", tool.name);
            tool.name.to_string()
        })
        .collect();
    assert_eq!(vec!["files__read", "files__list", "files__search"], names);
}
