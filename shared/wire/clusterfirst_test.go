package wire_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/wire/ecsapi"
)

// An unknown cluster is reported before anything else that is wrong with a request, by every
// operation on something in a cluster. Bodies are empty but for the cluster, or have a member that
// is not served.
func TestUnknownClusterComesFirst(t *testing.T) {
	// Operations whose member cluster does not name the cluster of the thing: they make or list
	// clusters, or refuse the member. DiscoverPollEndpoint knows no ClusterNotFoundException (API
	// reference).
	others := []string{"CreateCluster", "DiscoverPollEndpoint", "CreateCapacityProvider", "DeleteCapacityProvider",
		"DescribeCapacityProviders", "UpdateCapacityProvider"}
	b, refused, client := newBerth(t), ecsapi.RefusedOperations(), reflect.TypeFor[*ecs.Client]()
	for method := range client.Methods() {
		op := method.Name
		if method.Type.NumIn() != 4 || refused[op] != "" || slices.Contains(others, op) {
			continue
		}
		if f, has := method.Type.In(2).Elem().FieldByName("Cluster"); !has || f.Type != reflect.TypeFor[*string]() {
			continue
		}
		for _, body := range []string{`{"cluster":"none"}`, `{"cluster":"none","launchType":"FARGATE","tasks":["x"]}`} {
			_, code, message := b.answered(t, op, body)
			if code != "ClusterNotFoundException" || message != "Cluster not found." {
				t.Errorf("%s %s: %s %s", op, body, code, message)
			}
		}
	}
}
