package embedded

import (
	"bytes"
	"testing"
)

func TestSortedMembersSplitsARow(t *testing.T) {
	for _, c := range []struct{ name, row, want string }{
		{"Empty", `{}`, ``},
		{"Deleted", ``, ``},
		{"ByName", `{"b":2,"a":1}`, `"a":1|"b":2`},
		{"NestedObjectsStay", `{"b":{"z":[1,{"y":2}],"x":3},"a":[4,5]}`, `"a":[4,5]|"b":{"z":[1,{"y":2}],"x":3}`},
		{"TextsMayHoldAnything", `{"b":"},\"{,\\","a":"["}`, `"a":"["|"b":"},\"{,\\"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(bytes.Join(sortedMembers([]byte(c.row)), []byte("|"))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
