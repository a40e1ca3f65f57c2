package handler_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
)

// Nodes made from launch templates of instance types would be replaced by the like without end.
func TestNodeGroupUpgrade_RefusesSeveralTemplates(t *testing.T) {
	_, pool, n, upgrade := upgrading(t, version("web", "ami-2", ""))
	pool.groups["a"].OwnTemplates, pool.groups["b"].OwnTemplates = true, true
	u := pool.runs(upgrade, 5, nothing)
	want(t, "update", fmt.Sprint(u.Status, " ", u.Errors[0].Code, " ", u.Errors[0].Resources), "Failed OperationNotPermitted [a]")
	g := n.made(spec("other", "b"))
	want(t, "node group", fmt.Sprint(g.Status, " ", g.Issues[0].Code), "CREATE_FAILED "+string(cluster.IssueGroup))
}
