package protocol

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// Tree is the input of an operation, the same for every protocol: members by name.
// Values are string, float64, bool, Tree and []any of these.
type Tree = map[string]any

// TreeFromForm reads the parameters of a form. A dot leads into a structure, and a number into a
// list:
//
//	Name=web                         {"Name": "web"}
//	Target.Id=i-1                    {"Target": {"Id": "i-1"}}
//	Ids.member.1=a&Ids.member.2=b    {"Ids": ["a", "b"]}   Auto Scaling, Elastic Load Balancing
//	Id.1=a&Id.2=b                    {"Id": ["a", "b"]}    EC2, whose lists have no "member"
//
// A name that is a value here and a structure there is an error, as it is in AWS (MalformedInput).
func TreeFromForm(form url.Values) (Tree, error) {
	root := Tree{}
	// Sorted, "A" comes before "A.B": the structure always finds the value.
	for _, key := range slices.Sorted(maps.Keys(form)) {
		at, parts := root, strings.Split(key, ".")
		last := parts[len(parts)-1]
		for _, part := range parts[:len(parts)-1] {
			below, ok := at[part].(Tree)
			if !ok {
				if at[part] != nil {
					return nil, malformedInput(key)
				}
				below = Tree{}
				at[part] = below
			}
			at = below
		}
		if last == "" || at[last] != nil {
			return nil, malformedInput(key)
		}
		at[last] = form.Get(key)
	}
	// The root itself stays a structure, even if its members have names like a list's.
	for name, v := range root {
		root[name] = convertLists(v)
	}
	return root, nil
}

func malformedInput(key string) error {
	return cluster.Errorf("MalformedInput", "%.128s is a value and a structure", key)
}

// convertLists replaces structures whose members are all numbers by lists, and one whose only
// member is such a list, called member, by that list. As in AWS the numbers only order the items:
// 1 and 3 make a list of two.
func convertLists(v any) any {
	t, ok := v.(Tree)
	if !ok {
		return v
	}
	numbers := map[string]int{}
	for name, below := range t {
		t[name] = convertLists(below)
		if n, err := strconv.ParseUint(name, 10, 31); err == nil {
			numbers[name] = int(n)
		}
	}
	if list, ok := t["member"].([]any); ok && len(t) == 1 {
		return list
	}
	if len(numbers) < len(t) {
		return t
	}
	var list []any
	for _, name := range slices.SortedFunc(maps.Keys(t),
		func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) }) {
		list = append(list, t[name])
	}
	return list
}
