package wiring

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/shared/embedded"
)

// Condition is one test of a pattern: the path of a field, and what must hold for it, such as
// "detail.lastStatus" and "is STOPPED".
type Condition struct{ Path, Test string }

// Matches reports whether an event or a record, as EventBridge or Lambda sees it, is of this case.
func (c Case) Matches(event []byte) (bool, error) {
	text, err := json.Marshal(c.pattern)
	if err != nil {
		return false, err
	}
	p, err := embedded.ParsePattern(string(text))
	if err != nil {
		return false, err
	}
	return p.MatchesEvent(event), nil
}

// anywhere are fields of rules that say nothing about what happened: they name this account.
var anywhere = []string{"account", "region"}

// casesOf returns the cases of a pattern: one for each combination of its alternatives.
func casesOf(pattern any) []Case {
	top := maps.Clone(mapOf(pattern))
	for _, field := range anywhere {
		delete(top, field)
	}
	var all []Case
	for _, single := range alternatives(top) {
		all = append(all, Case{pattern: single, Conditions: conditionsOf(single, "")})
	}
	return all
}

// alternatives returns patterns without $or, in which each field has one test, and which together
// match what the pattern matches.
func alternatives(pattern any) []any {
	if list, ok := pattern.([]any); ok {
		var all []any
		for _, test := range list {
			all = append(all, []any{test})
		}
		return all
	}
	all := []map[string]any{{}}
	fields := mapOf(pattern)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var choices []map[string]any
		if name == "$or" {
			for _, branch := range listOf(fields[name]) {
				for _, single := range alternatives(branch) {
					choices = append(choices, mapOf(single))
				}
			}
		} else {
			for _, single := range alternatives(fields[name]) {
				choices = append(choices, map[string]any{name: single})
			}
		}
		var next []map[string]any
		for _, choice := range choices {
			for _, before := range all {
				next = append(next, merge(before, choice))
			}
		}
		all = next
	}
	out := make([]any, len(all))
	for i, m := range all {
		out[i] = m
	}
	return out
}

// merge joins two patterns about different fields.
func merge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for name, value := range b {
		if below, both := out[name].(map[string]any); both {
			value = merge(below, mapOf(value))
		}
		out[name] = value
	}
	return out
}

// conditionsOf lists the tests of a pattern without alternatives, by path.
func conditionsOf(pattern any, path string) (all []Condition) {
	if list, ok := pattern.([]any); ok {
		return []Condition{{Path: path, Test: describeTest(list[0])}}
	}
	fields := mapOf(pattern)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, conditionsOf(fields[name], strings.TrimPrefix(path+"."+name, "."))...)
	}
	return all
}

// describeTest says in words what a test of a pattern wants of a field.
func describeTest(test any) string {
	operator := mapOf(test)
	but := mapOf(operator["anything-but"])
	switch {
	case operator == nil:
		return fmt.Sprintf("is %v", test)
	case operator["prefix"] != nil:
		return fmt.Sprintf("begins with %v", operator["prefix"])
	case operator["exists"] == true:
		return "exists"
	case operator["exists"] == false:
		return "is absent"
	case but["prefix"] != nil:
		return fmt.Sprintf("does not begin with %v", but["prefix"])
	case operator["anything-but"] != nil && but == nil:
		return fmt.Sprintf("is not %v", operator["anything-but"])
	}
	return fmt.Sprintf("matches %v", test)
}
