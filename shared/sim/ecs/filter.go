package ecs

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"berth/shared/cluster"
	"berth/shared/constraint"
)

// parseFilter reads a filter of ListContainerInstances; an empty one is met by every instance.
func parseFilter(text string) (matches func(*instance) bool, err error) {
	if text == "" {
		return func(*instance) bool { return true }, nil
	}
	x, err := constraint.ParseQuery(text)
	if err != nil {
		return nil, invalidParameter("Invalid filter: %s", err)
	}
	return func(i *instance) bool { return x.Matches(filterSubject{i}) }, nil
}

// filterSubject is an instance as filters see it.
type filterSubject struct{ of *instance }

var _ constraint.Subject = filterSubject{}

func (s filterSubject) Attribute(name string) (string, bool) {
	for _, a := range s.of.Attributes {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// Property finds nothing: the cluster query language has no properties of nodes.
func (s filterSubject) Property(string) (string, bool) { return "", false }

func (s filterSubject) AgentConnected() bool    { return s.of.Connected }
func (s filterSubject) AgentVersion() string    { return value(s.of.agent().AgentVersion) }
func (s filterSubject) EC2InstanceID() string   { return s.of.EC2 }
func (s filterSubject) RegisteredAt() time.Time { return s.of.RegisteredAt }

func (s filterSubject) RunningTasks() int {
	running, _ := s.of.countTasks()
	return int(running)
}

func (s filterSubject) Groups(yield func(group string) bool) {
	for _, t := range s.of.tasks {
		if t.Last != cluster.TaskStopped && !yield(t.Group) {
			return
		}
	}
}

// DiscoverPollEndpoint answers for any instance and cluster, as ECS does. The agents of the
// machines here poll nothing: the endpoints are under invalid, so that an agent of somebody's own
// finds none.
func (e *Instances) DiscoverPollEndpoint(
	context.Context, *ecs.DiscoverPollEndpointInput,
) (*ecs.DiscoverPollEndpointOutput, error) {
	region := e.kernel.Account.Region
	return &ecs.DiscoverPollEndpointOutput{
		Endpoint:               new("https://ecs-a." + region + ".invalid/"),
		TelemetryEndpoint:      new("https://ecs-t." + region + ".invalid/"),
		ServiceConnectEndpoint: new("https://ecs-sc." + region + ".invalid/"),
	}, nil
}

// UpdateContainerAgent refuses to update: every machine here has the newest agent, or says itself
// which one it has and has no image to take another from.
func (e *Instances) UpdateContainerAgent(
	_ context.Context, in *ecs.UpdateContainerAgentInput,
) (*ecs.UpdateContainerAgentOutput, error) {
	err := e.kernel.View(e.agents.inCluster(value(in.Cluster), func(c *ecsCluster, _ time.Time) error {
		i := e.agents.findInstance(c, value(in.ContainerInstance))
		switch {
		case i == nil || i.Status == cluster.InstanceInactive:
			return invalidParameter("The referenced container instance was not found.")
		case value(i.agent().AgentVersion) == "":
			return cluster.Errorf("MissingVersionException", "The version of the instance's agent is not known.")
		}
		return cluster.Errorf("NoUpdateAvailableException", "There is no update available for your container agent.")
	}))
	return nil, err
}
