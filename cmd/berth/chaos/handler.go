package chaos

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
	"berth/shared/wire/transport"
)

// prefix is where the calls are.
const prefix = "/fleet/"

// Handler serves below /fleet/ what AWS has no operation for, and everything else with next:
//
//	GET    /fleet/clusters/NAME             the machines and tasks of a cluster, as they are
//	POST   /fleet/instances                 {"cluster", "count", "type", "zones"}: machines join; returns their ids
//	DELETE /fleet/instances/ID              the machine is terminated; only ECS notices
//	POST   /fleet/instances/ID/crash        the machine and its agent stop
//	POST   /fleet/instances/ID/disconnect   its agent loses its connection; its tasks keep running
//	POST   /fleet/instances/ID/reconnect    the machine runs and its agent is connected again
//	POST   /fleet/instances/ID/slow         {"seconds"}: tasks take so much longer to start there; 0 ends it
//	POST   /fleet/tasks/ID/exit             {"exitCode"}: the task exits
//	POST   /fleet/tasks/ID/health           {"healthy"}: all health checks of the task fail, or pass
//	POST   /fleet/tasks/ID/target           {"reason"}: its target health checks fail; with an empty reason they pass
//	POST   /fleet/quotas/SERVICE/CODE       {"value"}: the account's quota, which may be less than what is used
//	POST   /fleet/zones/ZONE/out            {"cluster"}: its machines in the zone are terminated; returns their ids
//
// An instance has ECS's id or EC2's, a task ECS's or Berth's. A body, at least {}, is JSON and must
// be declared so in Content-Type, which keeps web pages out. guard, if it is not nil, runs each call, or refuses
// a caller who may not make it.
func Handler(f *sim.AWS, guard Guard, next http.Handler) http.Handler {
	c := &controls{f}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /fleet/clusters/{name}", c.serveWorld)
	mux.HandleFunc("POST /fleet/instances", c.serveAddInstances)
	mux.HandleFunc("DELETE /fleet/instances/{id}", onID(f.Machines.KillInstance))
	mux.HandleFunc("POST /fleet/instances/{id}/crash", onID(f.Machines.CrashInstance))
	mux.HandleFunc("POST /fleet/instances/{id}/disconnect", onID(f.Machines.DisconnectAgent))
	mux.HandleFunc("POST /fleet/instances/{id}/reconnect", onID(f.Machines.ReconnectAgent))
	mux.HandleFunc("POST /fleet/instances/{id}/slow", withBody(func(id string, in struct{ Seconds int }) error {
		return f.Machines.SlowInstance(id, time.Duration(in.Seconds)*time.Second)
	}))
	mux.HandleFunc("POST /fleet/tasks/{id}/exit", withBody(func(id string, in struct{ ExitCode int }) error {
		return f.Machines.CrashTask(id, in.ExitCode)
	}))
	mux.HandleFunc("POST /fleet/tasks/{id}/health", withBody(func(id string, in struct{ Healthy bool }) error {
		return f.SetTaskHealth(id, in.Healthy)
	}))
	mux.HandleFunc("POST /fleet/tasks/{id}/target", withBody(func(id string, in struct{ Reason string }) error {
		return f.Machines.SetTargetHealth(id, in.Reason)
	}))
	mux.HandleFunc("POST /fleet/quotas/{service}/{id}", c.serveQuota)
	mux.HandleFunc("POST /fleet/zones/{zone}/out", c.serveZoneOut)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, prefix) {
			next.ServeHTTP(w, r)
			return
		}
		if !isLocalRequest(r) {
			writeError(w, http.StatusForbidden,
				"the fleet can be changed only from this machine, with Content-Type application/json")
			return
		}
		if guard == nil {
			mux.ServeHTTP(w, r)
			return
		}
		err := guard(r, strings.TrimPrefix(r.URL.Path, prefix), func() (succeeded bool) {
			answer := &statusRecorder{ResponseWriter: w}
			mux.ServeHTTP(answer, r)
			return answer.status == http.StatusOK
		})
		if err != nil {
			writeError(w, http.StatusForbidden, err.Error())
		}
	})
}

// Guard runs a call, which answers the request and reports whether it has done what was asked. The subject
// names what the call is about, such as instances/ID/crash. An error is the reason why it has not run the call.
type Guard func(r *http.Request, subject string, call func() (succeeded bool)) error

// statusRecorder keeps the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader writes the status.
func (w *statusRecorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// controls are the calls that need more than an id.
type controls struct{ fleet *sim.AWS }

// isLocalRequest reports that no web page can have sent the request. A page cannot use a loopback
// name for its own server, and browsers ask before they send this Content-Type, or DELETE, to
// another origin.
func isLocalRequest(r *http.Request) bool {
	if !transport.IsLoopback(r.Host) {
		return false
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.Method != http.MethodPost || err == nil && media == "application/json"
}

// onID serves a call that acts on the instance or task in the path. Any error is the caller's.
func onID(act func(id string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := act(r.PathValue("id")); err != nil {
			writeError(w, http.StatusBadRequest, err.Error())
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{})
	}
}

// withBody serves a call that acts on the instance or task in the path and has a body.
func withBody[I any](act func(id string, in I) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in I
		if decodeRequestBody(w, r, &in) {
			onID(func(id string) error { return act(id, in) })(w, r)
		}
	}
}

// serveAddInstances serves POST /fleet/instances.
func (c *controls) serveAddInstances(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Cluster string
		Count   int
		Type    string
		Zones   []string
	}{Cluster: "default", Count: 1, Type: "m5.large"}
	if !decodeRequestBody(w, r, &in) {
		return
	}
	if in.Count < 1 || in.Count > maxNodes {
		writeError(w, http.StatusBadRequest, "count must be 1 to 5000")
		return
	}
	ids, err := c.fleet.Machines.AddInstances(in.Cluster, in.Count, ec2.Machine{Type: in.Type, Zones: in.Zones})
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ids": ids})
}

// maxNodes is the most container instances that ECS allows in a cluster.
const maxNodes = 5000

// serveQuota serves POST /fleet/quotas/SERVICE/CODE.
func (c *controls) serveQuota(w http.ResponseWriter, r *http.Request) {
	withBody(func(code string, in struct{ Value float64 }) error {
		return c.fleet.Quotas.SetQuota(r.PathValue("service"), code, in.Value)
	})(w, r)
}

// serveZoneOut serves POST /fleet/zones/ZONE/out.
func (c *controls) serveZoneOut(w http.ResponseWriter, r *http.Request) {
	var in struct{ Cluster string }
	if !decodeRequestBody(w, r, &in) {
		return
	}
	zone := r.PathValue("zone")
	ids, err := c.fleet.Machines.TerminateZone(zone, in.Cluster)
	switch {
	case err != nil:
		writeError(w, http.StatusBadRequest, err.Error())
	case len(ids) == 0:
		writeError(w, http.StatusBadRequest, "no machine is in zone "+zone)
	default:
		writeJSON(w, http.StatusOK, map[string]any{"ids": ids})
	}
}

// serveWorld serves GET /fleet/clusters/NAME.
func (c *controls) serveWorld(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	machines, err := c.fleet.Machines.MachineTruths(name)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	out := World{Instances: []Instance{}, Tasks: []Task{}}
	for _, m := range machines {
		out.Instances = append(out.Instances, Instance{
			ID: m.ID, EC2: m.EC2, Zone: m.Zone, Type: m.Type, State: m.State,
			StartDelay: int(m.StartDelay / time.Second), Tasks: m.Tasks,
		})
	}
	for _, t := range c.fleet.Machines.TaskTruths(name) {
		if t.Alive && t.Last == cluster.TaskRunning {
			out.Tasks = append(out.Tasks, describeTask(t))
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// decodeRequestBody reads a JSON body of at most 64 KiB. If it cannot, it answers the request and
// returns false.
func decodeRequestBody(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
	}
	return err == nil
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}
