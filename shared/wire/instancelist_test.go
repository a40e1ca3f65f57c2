package wire_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// Filters about tasks are answered by Berth, all others by ECS.
func TestInstancesByTheirTasks(t *testing.T) {
	b := newBerth(t)
	in := &ecs.ListContainerInstancesInput{Cluster: new("prod"), Filter: new("task:group == service:web"),
		Status: types.ContainerInstanceStatusActive, MaxResults: new(int32(2))}
	first := must(b.ListContainerInstances(t.Context(), in))(t)
	expect(t, "asked", b.scheduler.instances, operation.ListInstances{Cluster: "prod",
		Filter: "task:group == service:web", Status: cluster.InstanceActive, Limit: 2})
	expect(t, "first page", first.ContainerInstanceArns, []string{account.ARN("container-instance", "prod", "0a"),
		account.ARN("container-instance", "prod", "0b")})
	in.NextToken = first.NextToken
	second := must(b.ListContainerInstances(t.Context(), in))(t)
	expect(t, "second page", second.ContainerInstanceArns,
		[]string{account.ARN("container-instance", "prod", "0c")})
	expect(t, "another page", second.NextToken != nil, false)
	in.Filter = new("task:group == service:api")
	_, err := b.ListContainerInstances(t.Context(), in)
	refused(t, err, "InvalidParameterException", "Invalid token")
	in.NextToken, in.Status = nil, "SOME"
	_, err = b.ListContainerInstances(t.Context(), in)
	refused(t, err, "InvalidParameterException", "status is")
	expect(t, "calls of ECS", len(b.cloud.calls), 0)
	must(b.ListContainerInstances(t.Context(), &ecs.ListContainerInstancesInput{Cluster: new("prod"),
		Filter: new("attribute:stack == blue")}))(t)
	expect(t, "calls of ECS", b.cloud.calls, []string{"ListContainerInstances"})
}
