package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/state"
)

// TestServiceRowFromBeforeDeployments reads a service's row as versions without deployments wrote
// it.
func TestServiceRowFromBeforeDeployments(t *testing.T) {
	before := `{"pk":"c","rv":3,"nm":"web","sh":"0123456789ab","st":"ACTIVE","ss":"REPLICA","de":3,"td":"web:2","mi":100,"ma":200,
		"nw":{"s":["subnet-1"]},"dp":{"id":"ecs-svc/1234567890123456789","ca":"2026-11-21T10:00:00Z","ua":"2026-11-21T11:00:00Z","fa":1,"co":true}}`
	row, err := state.DecodeRow("service#web", []byte(before))
	if err != nil {
		t.Fatal(err)
	}
	s := row.(*cluster.Service)
	if d := s.Deployment; d.TaskDefinition != "web:2" || !d.IsCompleted() || d.Failed != 1 ||
		!d.Network.Equal(&cluster.Network{Subnets: []string{"subnet-1"}}) || d.ID != "ecs-svc/1234567890123456789" {
		t.Errorf("deployment %+v", d)
	}
	if s.Name != "web" || s.Desired != 3 || s.MaxPercent != 200 || s.Cluster != "c" {
		t.Errorf("service %+v", s)
	}
	after, err := state.EncodeRow(row)
	if err != nil {
		t.Fatal(err)
	}
	again, err := state.DecodeRow("service#web", after)
	if diff := cmp.Diff(row, again); err != nil || diff != "" {
		t.Errorf("%v, written and read again:\n%s", err, diff)
	}
}
