package balancing

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

const registryBucket = "registries"

// Registries are the services of Cloud Map.
type Registries struct {
	kernel.Table[*registry] // by id

	kernel *kernel.Kernel
}

// NewRegistries returns no registries yet.
func NewRegistries(k *kernel.Kernel) *Registries {
	return &Registries{Table: kernel.NewTable[*registry](registryBucket), kernel: k}
}

// registry is a service of Cloud Map, as stored.
type registry struct {
	ID, Name, ARN string
	// Checked is true if instances have a custom health status. They are healthy until
	// UpdateInstanceCustomHealthStatus says otherwise.
	Checked bool
	Entries map[string]*entry // by id
}

// entry is one Cloud Map instance: an address under an id that the caller chose.
type entry struct {
	Attributes map[string]string
	Unhealthy  bool
}

func (r *registry) StoredRow() (string, string, any) { return registryBucket, r.ID, r }

// CreateRegistry creates a service of Cloud Map, with custom health checks if checked, and returns
// its ARN. It returns the service of that name, unchanged, if there is one.
func (e *Registries) CreateRegistry(name string, checked bool) (arn string, err error) {
	err = e.kernel.Change(func(time.Time) error {
		arn = e.newRegistry(name, checked).ARN
		return nil
	})
	return arn, err
}

// newRegistry adds a service, or returns the one that has the name already: the id derives from the
// name.
func (e *Registries) newRegistry(name string, checked bool) *registry {
	id := "srv-" + cluster.Digest("registry", name)[:16]
	if old := e.Rows[id]; old != nil {
		return old
	}
	r := &registry{ID: id, Name: name, ARN: e.kernel.ResourceARN("servicediscovery", "service/"+id), Checked: checked,
		Entries: map[string]*entry{}}
	e.Rows[id] = r
	e.kernel.SaveRow(r)
	return r
}

// findRegistry takes the ARN that Berth stores or the id that the API uses.
func (e *Registries) findRegistry(arnOrID string) (*registry, error) {
	if r := e.Rows[cluster.LastPart(arnOrID)]; r != nil {
		return r, nil
	}
	return nil, cluster.Errorf(cluster.CodeRegistryNotFound, "Service not found: %s", cluster.LastPart(arnOrID))
}

// changeRegistry changes a service of Cloud Map, unless a fault prevents the call. The fault is
// decided by the ARN as the caller gave it.
func (e *Registries) changeRegistry(operation, arn string, step func(r *registry) error) error {
	return e.kernel.Call(operation, arn, func(time.Time) error {
		r, err := e.findRegistry(arn)
		if err != nil {
			return err
		}
		e.kernel.SaveRow(r)
		return step(r)
	})
}

// RegisterInstance registers an address under an id, and replaces what was registered under it.
func (e *Registries) RegisterInstance(_ context.Context, arn, id string, at cluster.Address) error {
	attributes := map[string]string{"AWS_INSTANCE_IPV4": at.Host}
	if at.Port != 0 {
		attributes["AWS_INSTANCE_PORT"] = strconv.Itoa(at.Port)
	}
	if at.ExternalID != "" {
		attributes["ECS_TASK_SET_EXTERNAL_ID"] = at.ExternalID
	}
	return e.putEntry(arn, id, attributes)
}

// putEntry registers attributes under an id. The initial health is one of them, as in Cloud Map.
func (e *Registries) putEntry(arn, id string, attributes map[string]string) error {
	return e.changeRegistry("RegisterInstance", arn, func(r *registry) error {
		if id == "" || len(id) > 64 || len(attributes) == 0 {
			return cluster.Errorf("InvalidInput", "an instance needs an id of up to 64 characters, and attributes")
		}
		r.Entries[id] = &entry{Attributes: attributes, Unhealthy: attributes["AWS_INIT_HEALTH_STATUS"] == "UNHEALTHY"}
		return nil
	})
}

// DeregisterInstance removes what is registered under an id.
func (e *Registries) DeregisterInstance(_ context.Context, arn, id string) error {
	return e.changeRegistry("DeregisterInstance", arn, func(r *registry) error {
		if r.Entries[id] == nil {
			return cluster.Errorf(cluster.CodeEntryNotFound, "Instance not found: %.64s", id)
		}
		delete(r.Entries, id)
		return nil
	})
}

// SetRegistryHealth sets the custom health status of an instance.
func (e *Registries) SetRegistryHealth(arn, id string, healthy bool) error {
	return e.changeRegistry("UpdateInstanceCustomHealthStatus", arn, func(r *registry) error {
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

// InstancesHealth returns the health of every instance, by id.
func (e *Registries) InstancesHealth(_ context.Context, arn string) (map[string]cluster.TargetHealth, error) {
	out := map[string]cluster.TargetHealth{}
	err := e.kernel.CallView("GetInstancesHealthStatus", arn, func(time.Time) error {
		r, err := e.findRegistry(arn)
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

// entryIDs returns the ids of the instances, sorted.
func (r *registry) entryIDs() []string { return slices.Sorted(maps.Keys(r.Entries)) }
