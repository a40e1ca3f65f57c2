package balancing

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicediscovery"
	"github.com/aws/aws-sdk-go-v2/service/servicediscovery/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

// Registries calls Cloud Map for its services, in which tasks are registered.
type Registries struct {
	Client *servicediscovery.Client
}

// NewRegistries returns the services that a configuration of the SDK leads to.
func NewRegistries(c aws.Config) *Registries {
	return &Registries{Client: servicediscovery.NewFromConfig(c)}
}

// RegisterInstance registers an address under an id, and replaces what was registered under it.
// Cloud Map completes it some time after its answer.
func (r *Registries) RegisterInstance(ctx context.Context, registry, id string, at cluster.Address) error {
	attributes := map[string]string{"AWS_INSTANCE_IPV4": at.Host}
	if at.Port != 0 {
		attributes["AWS_INSTANCE_PORT"] = strconv.Itoa(at.Port)
	}
	if at.ExternalID != "" {
		attributes["ECS_TASK_SET_EXTERNAL_ID"] = at.ExternalID
	}
	_, err := r.Client.RegisterInstance(ctx, &servicediscovery.RegisterInstanceInput{
		ServiceId: new(cluster.LastPart(registry)), InstanceId: &id, Attributes: attributes,
	})
	if err != nil {
		return fmt.Errorf("registering in Cloud Map: %w", awsapi.CallError(err))
	}
	return nil
}

// DeregisterInstance removes what is registered under an id.
func (r *Registries) DeregisterInstance(ctx context.Context, registry, id string) error {
	_, err := r.Client.DeregisterInstance(ctx, &servicediscovery.DeregisterInstanceInput{
		ServiceId: new(cluster.LastPart(registry)), InstanceId: &id,
	})
	if err != nil {
		return fmt.Errorf("deregistering from Cloud Map: %w", awsapi.CallError(err))
	}
	return nil
}

// InstancesHealth returns the health of every instance of a service, by id. Instances of a service
// without a health check are healthy: Cloud Map reports UNKNOWN for them, and for instances whose
// check has no result yet, so a second call has to tell.
func (r *Registries) InstancesHealth(ctx context.Context, registry string) (map[string]cluster.TargetHealth, error) {
	service := cluster.LastPart(registry)
	health, unknown := map[string]cluster.TargetHealth{}, false
	in := &servicediscovery.GetInstancesHealthStatusInput{ServiceId: &service}
	for pages := servicediscovery.NewGetInstancesHealthStatusPaginator(r.Client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing instances' health in Cloud Map: %w", awsapi.CallError(err))
		}
		for id, status := range page.Status {
			h := cluster.TargetHealth{Health: cluster.ParseHealth(string(status))}
			if h.Health == cluster.Unhealthy {
				h.Reason = "Cloud Map reports it as unhealthy"
			}
			health[id], unknown = h, unknown || status == types.HealthStatusUnknown
		}
	}
	if !unknown {
		return health, nil
	}
	checked, err := r.hasHealthCheck(ctx, service)
	if err != nil || checked {
		return health, err
	}
	for id := range health {
		health[id] = cluster.TargetHealth{Health: cluster.Healthy}
	}
	return health, nil
}

// hasHealthCheck reports whether a service has a health check, its own or a custom one.
func (r *Registries) hasHealthCheck(ctx context.Context, service string) (bool, error) {
	out, err := r.Client.GetService(ctx, &servicediscovery.GetServiceInput{Id: &service})
	if err != nil {
		return false, fmt.Errorf("describing Cloud Map's service %s: %w", service, awsapi.CallError(err))
	}
	return out.Service != nil && (out.Service.HealthCheckConfig != nil || out.Service.HealthCheckCustomConfig != nil),
		nil
}
