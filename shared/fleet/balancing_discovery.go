package fleet

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"berth/shared/cluster"
)

// discoveryInput is what any of the operations takes.
type discoveryInput struct {
	Name, NamespaceID, ServiceID, ID, InstanceID, Status string
	Attributes                                           map[string]string
	Instances                                            []string
	HealthCheckCustomConfig                              *struct{}
}

// discovery answers a call of Cloud Map: JSON 1.1.
func (f *Fleet) discovery(w http.ResponseWriter, operation string, body []byte) {
	var in discoveryInput
	var out any
	err := json.Unmarshal(body, &in)
	if err != nil {
		err = cluster.Errorf("SerializationException", "%v", err)
	} else {
		out, err = f.discoveryOperation(operation, &in)
	}
	status := http.StatusOK
	if err != nil {
		var e *cluster.Error
		e, status = asError(err)
		out = map[string]string{"__type": string(e.Code), "Message": e.Message}
	}
	answer, err := json.Marshal(out)
	if err != nil {
		status = http.StatusInternalServerError
	}
	reply(w, status, "application/x-amz-json-1.1", answer)
}

type object = map[string]any

func (f *Fleet) discoveryOperation(operation string, in *discoveryInput) (any, error) {
	switch operation {
	case "CreateService":
		var out any
		err := f.change(func(time.Time) error {
			out = object{"Service": f.newRegistry(in.Name, in.HealthCheckCustomConfig != nil).describe()}
			return nil
		})
		return out, err
	case "GetService":
		var out any
		err := f.look(func(time.Time) error {
			r, err := f.registry(in.ID)
			if err == nil {
				out = object{"Service": r.describe()}
			}
			return err
		})
		return out, err
	case "RegisterInstance":
		return f.operation(), f.enter(in.ServiceID, in.InstanceID, in.Attributes)
	case "DeregisterInstance":
		return f.operation(), f.DeregisterInstance(context.Background(), in.ServiceID, in.InstanceID)
	case "UpdateInstanceCustomHealthStatus":
		return object{}, f.SetRegistryHealth(in.ServiceID, in.InstanceID, in.Status == "HEALTHY")
	case "GetInstancesHealthStatus":
		return f.discoveredHealth(in)
	case "ListInstances":
		return f.listEntries(in)
	}
	return nil, unknownOperation(operation)
}

// operation stands for what Cloud Map does after it has answered; here it is done already.
func (f *Fleet) operation() any { return object{"OperationId": "done"} }

func (r *registry) describe() object {
	out := object{"Id": r.ID, "Arn": r.ARN, "Name": r.Name, "InstanceCount": len(r.Entries)}
	if r.Checked {
		out["HealthCheckCustomConfig"] = object{"FailureThreshold": 1}
	}
	return out
}

// discoveredHealth is unknown where the service checks none.
func (f *Fleet) discoveredHealth(in *discoveryInput) (any, error) {
	if proceed, err := f.faulty("GetInstancesHealthStatus", in.ServiceID, func() error { return nil }); !proceed {
		return nil, err
	}
	status := map[string]string{}
	err := f.look(func(time.Time) error {
		r, err := f.registry(in.ServiceID)
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

func (f *Fleet) listEntries(in *discoveryInput) (any, error) {
	list := []object{}
	err := f.look(func(time.Time) error {
		r, err := f.registry(in.ServiceID)
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
