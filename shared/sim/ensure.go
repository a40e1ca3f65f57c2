package sim

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"berth/shared/sim/ec2"
)

// EnsureCluster creates the cluster unless it is ACTIVE, and adds instances of the machine until it
// has n. It returns how many it added.
func (a *AWS) EnsureCluster(ctx context.Context, name string, n int, m ec2.Machine) (added int, err error) {
	active, err := a.ECS.ClusterActive(ctx, name)
	if err != nil {
		return 0, err
	}
	if !active {
		status, answer := a.ECS.Endpoint().ServeOperation(ctx, "CreateCluster",
			[]byte(`{"clusterName":`+strconv.Quote(name)+`}`))
		if status != http.StatusOK {
			return 0, fmt.Errorf("creating cluster %s: %s", name, answer)
		}
	}
	ids, err := a.ECS.ListInstances(ctx, name)
	if err != nil {
		return 0, err
	}
	if added = max(0, n-len(ids)); added > 0 {
		_, err = a.Machines.AddInstances(name, added, m)
	}
	return added, err
}
