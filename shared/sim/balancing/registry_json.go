package balancing

import (
	"context"
	"net/http"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// registryInput has the members that any of the operations takes.
type registryInput struct {
	Name, ServiceId, Id, InstanceId, Status string
	Attributes                              protocol.Tree
	Instances                               []string
	HealthCheckCustomConfig                 *struct{}
}

// ServeJSON answers a call of Cloud Map.
func (e *Registries) ServeJSON(w http.ResponseWriter, operation string, body []byte) {
	protocol.JSON11.ServeTree(w, body, func(tree protocol.Tree) (protocol.Tree, error) {
		var in registryInput
		if err := protocol.DecodeTree(tree, &in); err != nil {
			return nil, err
		}
		return e.answerOperation(operation, &in)
	})
}

// completedOperation returns the answer of operations that Cloud Map completes later. Here they are
// complete.
func completedOperation() protocol.Tree { return protocol.Tree{"OperationId": "done"} }

// answerOperation carries out one operation. What Cloud Map would do later, such as registering an
// instance, is done when it returns.
func (e *Registries) answerOperation(operation string, in *registryInput) (out protocol.Tree, err error) {
	switch operation {
	case "CreateService":
		err = e.kernel.Change(func(time.Time) error {
			out = protocol.Tree{"Service": e.newRegistry(in.Name, in.HealthCheckCustomConfig != nil).describeRegistry()}
			return nil
		})
		return out, err
	case "GetService":
		err = e.kernel.View(func(time.Time) error {
			r, err := e.findRegistry(in.Id)
			if err == nil {
				out = protocol.Tree{"Service": r.describeRegistry()}
			}
			return err
		})
		return out, err
	case "RegisterInstance":
		attributes := map[string]string{}
		for name, value := range in.Attributes {
			attributes[name], _ = value.(string)
		}
		return completedOperation(), e.putEntry(in.ServiceId, in.InstanceId, attributes)
	case "DeregisterInstance":
		return completedOperation(), e.DeregisterInstance(context.Background(), in.ServiceId, in.InstanceId)
	case "UpdateInstanceCustomHealthStatus":
		return protocol.Tree{}, e.SetRegistryHealth(in.ServiceId, in.InstanceId, in.Status == "HEALTHY")
	case "GetInstancesHealthStatus":
		return e.describeHealth(in)
	case "ListInstances":
		return e.listEntries(in)
	}
	return nil, protocol.UnknownOperation(operation)
}

// describeRegistry has a health check only if the service was created with one. Berth decides by it
// whether UNKNOWN is healthy.
func (r *registry) describeRegistry() protocol.Tree {
	out := protocol.Tree{"Id": r.ID, "Arn": r.ARN, "Name": r.Name, "InstanceCount": len(r.Entries)}
	if r.Checked {
		out["HealthCheckCustomConfig"] = protocol.Tree{"FailureThreshold": 1}
	}
	return out
}

// describeHealth answers UNKNOWN where the service has no health check.
func (e *Registries) describeHealth(in *registryInput) (protocol.Tree, error) {
	status := map[string]string{}
	err := e.kernel.CallView("GetInstancesHealthStatus", in.ServiceId, func(time.Time) error {
		r, err := e.findRegistry(in.ServiceId)
		if err != nil {
			return err
		}
		ids := in.Instances
		if len(ids) == 0 {
			ids = r.entryIDs()
		}
		for _, id := range ids {
			e := r.Entries[id]
			switch {
			case e == nil:
				return cluster.Errorf(cluster.CodeEntryNotFound, "Instance not found: %.64s", id)
			case !r.Checked:
				status[id] = "UNKNOWN"
			case e.Unhealthy:
				status[id] = "UNHEALTHY"
			default:
				status[id] = "HEALTHY"
			}
		}
		return nil
	})
	return protocol.Tree{"Status": status}, err
}

// listEntries lists the instances of a service by id, all in one page.
func (e *Registries) listEntries(in *registryInput) (protocol.Tree, error) {
	list := []protocol.Tree{}
	err := e.kernel.View(func(time.Time) error {
		r, err := e.findRegistry(in.ServiceId)
		if err != nil {
			return err
		}
		for _, id := range r.entryIDs() {
			list = append(list, protocol.Tree{"Id": id, "Attributes": r.Entries[id].Attributes})
		}
		return nil
	})
	return protocol.Tree{"Instances": list}, err
}
