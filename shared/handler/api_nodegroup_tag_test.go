package handler_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
)

// Tags come and go without an update of the node group; one that was created again under the name
// is another.
func TestNodeGroups_Tags(t *testing.T) {
	w := newWorld(t)
	n, _ := groupsOf(w)
	n.made(spec("web", "a"))
	g := n.described("web")
	want(t, "error", n.TagNodeGroup(ctx, g.Ref(), map[string]string{"a": "1", "b": "2"}, nil), nil)
	want(t, "error", n.TagNodeGroup(ctx, g.Ref(), map[string]string{"a": "3"}, []string{"b", "none"}), nil)
	got := n.described("web")
	want(t, "tags", fmt.Sprint(got.Tags["a"], " ", len(got.Tags) == len(g.Tags)+1), "3 true")
	want(t, "status", got.Status, g.Status)
	other := g.Ref()
	other.ID = "another"
	wantCode(t, n.TagNodeGroup(ctx, other, map[string]string{"a": "4"}, nil), cluster.CodeNotFound, "No node group found")
	many := map[string]string{}
	for i := range 51 {
		many[fmt.Sprint("k", i)] = "v"
	}
	wantCode(t, n.TagNodeGroup(ctx, g.Ref(), many, nil), cluster.CodeInvalidParameter, "at most 50")
	want(t, "tags after refusals", n.described("web").Tags["a"], "3")
}
