package protocol

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// Tree is the input of an operation, whatever the protocol: members by name.
// Values are string, float64, bool, Tree and []any of these.
type Tree = map[string]any

// TreeFromForm reads the parameters of a form: "A.B=x" is B of A, "A.1=x" and "A.member.1=x" are
// the first item of A.
func TreeFromForm(form url.Values) (Tree, error) {
	root := Tree{}
	for _, key := range slices.Sorted(maps.Keys(form)) {
		at, parts := root, strings.Split(key, ".")
		last := parts[len(parts)-1]
		for _, part := range parts[:len(parts)-1] {
			below, ok := at[part].(Tree)
			if !ok {
				if at[part] != nil {
					return nil, valueAndStructure(key)
				}
				below = Tree{}
				at[part] = below
			}
			at = below
		}
		if last == "" || at[last] != nil {
			return nil, valueAndStructure(key)
		}
		at[last] = form.Get(key)
	}
	for name, v := range root {
		root[name] = convertLists(v)
	}
	return root, nil
}

func valueAndStructure(key string) error {
	return cluster.Errorf("InvalidParameterCombination", "%.128s is a value and a structure", key)
}

// convertLists replaces structures whose members are 1, 2, 3 ... by lists, and one whose only
// member is such a list, called member, by that list.
func convertLists(v any) any {
	t, ok := v.(Tree)
	if !ok {
		return v
	}
	for name, below := range t {
		t[name] = convertLists(below)
	}
	if list, ok := t["member"].([]any); ok && len(t) == 1 {
		return list
	}
	var list []any
	for n := 1; t[strconv.Itoa(n)] != nil; n++ {
		list = append(list, t[strconv.Itoa(n)])
	}
	if len(list) < len(t) {
		return t
	}
	return list
}
