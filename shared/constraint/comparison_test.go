package constraint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/constraint"
)

func TestComparisons(t *testing.T) {
	type list = []constraint.Comparison
	for text, want := range map[string]list{
		"attribute:rack == r1":                       {{Name: "rack", Values: []string{"r1"}}},
		"attribute:rack in [r1, r2]":                 {{Name: "rack", Values: []string{"r1", "r2"}}},
		"attribute:rack =~ r.*":                      {{Name: "rack"}},
		"attribute:rack !exists":                     nil,
		"not (attribute:rack == r1)":                 nil,
		"runningTasksCount > 1":                      nil,
		"attribute:a exists or attribute:b == '1 2'": {{Name: "a"}, {Name: "b", Values: []string{"1 2"}}},
	} {
		e, err := constraint.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, list(e.Comparisons())); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for text, want := range map[string]list{
		"NodeType == Front && Ram >= 16": {{"NodeType", true, []string{"Front"}}, {Name: "Ram", Property: true}},
		"FDPolicy ~ Nonpacking":          nil,
		"!(NodeType == Front)":           nil,
		"NodeType != Front":              nil,
		"(a ^ fd:/dc1) || b == 1":        {{Name: "a", Property: true}, {"b", true, []string{"1"}}},
	} {
		e, err := constraint.ParseProperties(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, list(e.Comparisons())); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
