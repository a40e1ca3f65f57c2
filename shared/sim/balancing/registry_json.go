package balancing

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// discoveryInput is what any of the operations takes.
type discoveryInput struct {
	Name, NamespaceID, ServiceID, ID, InstanceID, Status string
	Attributes                                           map[string]string
	Instances                                            []string
	HealthCheckCustomConfig                              *struct{}
}

// ServeJSON answers a call of Cloud Map: JSON 1.1.
func (e *Registries) ServeJSON(w http.ResponseWriter, operation string, body []byte) {
	var in discoveryInput
	var out any
	err := json.Unmarshal(body, &in)
	if err != nil {
		err = cluster.Errorf("SerializationException", "%v", err)
	} else {
		out, err = e.discoveryOperation(operation, &in)
	}
	status := http.StatusOK
	if err != nil {
		var e *cluster.Error
		e, status = protocol.AsError(err)
		out = map[string]string{"__type": string(e.Code), "Message": e.Message}
	}
	answer, err := json.Marshal(out)
	if err != nil {
		status = http.StatusInternalServerError
	}
	protocol.Reply(w, status, "application/x-amz-json-1.1", answer)
}

type object = map[string]any

func (e *Registries) discoveryOperation(operation string, in *discoveryInput) (any, error) {
	switch operation {
	case "CreateService":
		var out any
		err := e.kernel.Change(func(time.Time) error {
			out = object{"Service": e.newRegistry(in.Name, in.HealthCheckCustomConfig != nil).describe()}
			return nil
		})
		return out, err
	case "GetService":
		var out any
		err := e.kernel.View(func(time.Time) error {
			r, err := e.registry(in.ID)
			if err == nil {
				out = object{"Service": r.describe()}
			}
			return err
		})
		return out, err
	case "RegisterInstance":
		return e.operation(), e.enter(in.ServiceID, in.InstanceID, in.Attributes)
	case "DeregisterInstance":
		return e.operation(), e.DeregisterInstance(context.Background(), in.ServiceID, in.InstanceID)
	case "UpdateInstanceCustomHealthStatus":
		return object{}, e.SetRegistryHealth(in.ServiceID, in.InstanceID, in.Status == "HEALTHY")
	case "GetInstancesHealthStatus":
		return e.discoveredHealth(in)
	case "ListInstances":
		return e.listEntries(in)
	}
	return nil, protocol.UnknownOperation(operation)
}

// operation stands for what Cloud Map does after it has answered; here it is done already.
func (e *Registries) operation() any { return object{"OperationId": "done"} }

func (r *registry) describe() object {
	out := object{"Id": r.ID, "Arn": r.ARN, "Name": r.Name, "InstanceCount": len(r.Entries)}
	if r.Checked {
		out["HealthCheckCustomConfig"] = object{"FailureThreshold": 1}
	}
	return out
}

// discoveredHealth is unknown where the service checks none.
func (e *Registries) discoveredHealth(in *discoveryInput) (any, error) {
	if err := e.kernel.FailCall("GetInstancesHealthStatus", in.ServiceID); err != nil {
		return nil, err
	}
	status := map[string]string{}
	err := e.kernel.View(func(time.Time) error {
		r, err := e.registry(in.ServiceID)
		if err != nil {
			return err
		}
		ids := in.Instances
		if len(ids) == 0 {
			ids = r.ids()
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
	return object{"Status": status}, err
}

func (e *Registries) listEntries(in *discoveryInput) (any, error) {
	list := []object{}
	err := e.kernel.View(func(time.Time) error {
		r, err := e.registry(in.ServiceID)
		if err != nil {
			return err
		}
		for _, id := range r.ids() {
			list = append(list, object{"Id": id, "Attributes": r.Entries[id].Attributes})
		}
		return nil
	})
	return object{"Instances": list}, err
}
