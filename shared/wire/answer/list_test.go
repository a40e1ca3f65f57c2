package answer_test

import (
	"slices"
	"strings"
	"testing"

	"berth/shared/wire/answer"
)

// A page continues behind the cursor, also if ECS's items have changed between two looks at them.
func TestListPage(t *testing.T) {
	for name, c := range map[string]struct {
		items  string
		from   answer.Cursor
		isLast bool
		shown  string
		at     answer.Cursor
		isCut  bool
	}{
		"Inserted":       {"a c d", answer.Cursor{}, true, "a b c", answer.Cursor{"c", "b"}, true},
		"AtTheEnd":       {"d", answer.Cursor{"", "b"}, true, "d e f", answer.Cursor{"d", "f"}, false},
		"NotYet":         {"d", answer.Cursor{"", "b"}, false, "d", answer.Cursor{"d", "b"}, false},
		"ListedByBoth":   {"a b c d", answer.Cursor{}, true, "a b c", answer.Cursor{"c", ""}, true},
		"ECSsOwnSince":   {"a b c d", answer.Cursor{"a", "b"}, true, "c d e", answer.Cursor{"d", "e"}, true},
		"ItsItemIsGone":  {"c d", answer.Cursor{"a", "b"}, true, "c d e", answer.Cursor{"d", "e"}, true},
		"AShorterPage":   {"a c", answer.Cursor{"d", "b"}, false, "", answer.Cursor{"d", "b"}, false},
		"Hidden":         {"a aa c", answer.Cursor{"", "b"}, false, "a c", answer.Cursor{"c", "b"}, false},
		"HiddenAtItsEnd": {"a c d x", answer.Cursor{"", "f"}, true, "a c d", answer.Cursor{"x", "f"}, false},
	} {
		list := answer.List{Compare: strings.Compare, Added: []string{"b", "e", "f"},
			IsHidden: func(item string) bool { return item == "aa" || item == "x" }}
		shown, at, isCut := list.Page(strings.Fields(c.items), c.from, 3, c.isLast)
		if strings.Join(shown, " ") != c.shown || at != c.at || isCut != c.isCut {
			t.Errorf("%s: %v, then %+v, cut %t", name, shown, at, isCut)
		}
	}
	unordered := answer.List{Added: []string{"b", "d"}}
	shown, at, isCut := unordered.Page([]string{"c", "a"}, answer.Cursor{}, 3, true)
	if !slices.Equal(shown, []string{"c", "a", "b"}) || at != (answer.Cursor{Item: "a", Added: "b"}) || !isCut {
		t.Errorf("without an order: %v, then %+v, cut %t", shown, at, isCut)
	}
}
