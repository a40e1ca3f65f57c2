package fleet

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/shared/cluster"
)

// registry is a service of Cloud Map, as stored.
type registry struct {
	ID, Name, ARN string
	// Checked has it know health: what UpdateInstanceCustomHealthStatus says, healthy until then.
	Checked bool
	Entries map[string]*entry // by id
}

type entry struct {
	Attributes map[string]string
	Unhealthy  bool
}

func (r *registry) row() (string, string, any) { return bucketRegistries, r.ID, r }

// CreateRegistry makes a service of Cloud Map, with health that is told to it or without any, and gives its ARN. One of the
// same name stays as it is.
func (f *Fleet) CreateRegistry(name string, checked bool) (arn string, err error) {
	err = f.change(func(time.Time) error {
		arn = f.newRegistry(name, checked).ARN
		return nil
	})
	return arn, err
}

func (f *Fleet) newRegistry(name string, checked bool) *registry {
	id := "srv-" + cluster.Digest("registry", name)[:16]
	if old := f.registries[id]; old != nil {
		return old
	}
	r := &registry{ID: id, Name: name, ARN: f.arn("servicediscovery", "service/"+id), Checked: checked, Entries: map[string]*entry{}}
	f.registries[id] = r
	f.touch(r)
	return r
}

func (f *Fleet) registry(arnOrID string) (*registry, error) {
	if r := f.registries[cluster.LastPart(arnOrID)]; r != nil {
		return r, nil
	}
	return nil, cluster.Errorf(cluster.CodeRegistryNotFound, "Service not found: %s", cluster.LastPart(arnOrID))
}

// inRegistry runs a step that changes a Cloud Map service, faults included.
func (f *Fleet) inRegistry(operation, arn string, step func(r *registry) error) error {
	run := func() error {
		return f.change(func(time.Time) error {
			r, err := f.registry(arn)
			if err != nil {
				return err
			}
			f.touch(r)
			return step(r)
		})
	}
	proceed, err := f.faulty(operation, arn, run)
	if proceed {
		err = run()
	}
	return err
}

// RegisterInstance enters an address under an id, in the place of what was entered under it.
func (f *Fleet) RegisterInstance(_ context.Context, arn, id string, at cluster.Address) error {
	attributes := map[string]string{"AWS_INSTANCE_IPV4": at.Host}
	if at.Port != 0 {
		attributes["AWS_INSTANCE_PORT"] = strconv.Itoa(at.Port)
	}
	return f.enter(arn, id, attributes)
}

func (f *Fleet) enter(arn, id string, attributes map[string]string) error {
	return f.inRegistry("RegisterInstance", arn, func(r *registry) error {
		if id == "" || len(id) > 64 || len(attributes) == 0 {
			return cluster.Errorf("InvalidInput", "an instance needs an id of up to 64 characters, and attributes")
		}
		r.Entries[id] = &entry{Attributes: attributes, Unhealthy: attributes["AWS_INIT_HEALTH_STATUS"] == "UNHEALTHY"}
		return nil
	})
}

// DeregisterInstance removes what is entered under an id.
func (f *Fleet) DeregisterInstance(_ context.Context, arn, id string) error {
	return f.inRegistry("DeregisterInstance", arn, func(r *registry) error {
		if r.Entries[id] == nil {
			return cluster.Errorf(cluster.CodeEntryNotFound, "Instance not found: %.64s", id)
		}
		delete(r.Entries, id)
		return nil
	})
}

// SetRegistryHealth tells a Cloud Map service that knows health how an instance is.
func (f *Fleet) SetRegistryHealth(arn, id string, healthy bool) error {
	return f.inRegistry("UpdateInstanceCustomHealthStatus", arn, func(r *registry) error {
		switch e := r.Entries[id]; {
		case !r.Checked:
			return cluster.Errorf("CustomHealthNotFound", "The service has no custom health check.")
		case e == nil:
			return cluster.Errorf(cluster.CodeEntryNotFound, "Instance not found: %.64s", id)
		default:
			e.Unhealthy = !healthy
		}
		return nil
	})
}

// InstancesHealth is that of every instance, by id.
func (f *Fleet) InstancesHealth(_ context.Context, arn string) (map[string]cluster.TargetHealth, error) {
	if proceed, err := f.faulty("GetInstancesHealthStatus", arn, func() error { return nil }); !proceed {
		return nil, err
	}
	out := map[string]cluster.TargetHealth{}
	err := f.look(func(time.Time) error {
		r, err := f.registry(arn)
		if err != nil {
			return err
		}
		for id, e := range r.Entries {
			out[id] = cluster.TargetHealth{Health: cluster.Healthy}
			if r.Checked && e.Unhealthy {
				out[id] = cluster.TargetHealth{Health: cluster.Unhealthy, Reason: "Cloud Map reports it as unhealthy"}
			}
		}
		return nil
	})
	return out, err
}

// ids are the instances, in order.
func (r *registry) ids() []string { return slices.Sorted(maps.Keys(r.Entries)) }
