package dataplane

import (
	"encoding/json"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strings"

	"berth/shared/sim"
	"berth/shared/sim/ec2"
	"berth/shared/wire/transport"
)

// newHandler serves the protocols of the simulated AWS at /, and below /fleet/ what ECS has no
// operation for:
//
//	POST   /fleet/instances                 {"cluster", "count", "type", "zones"}: machines join; returns their ids
//	DELETE /fleet/instances/ID              the machine is terminated; only ECS notices
//	POST   /fleet/instances/ID/crash        the machine and its agent stop
//	POST   /fleet/instances/ID/disconnect   its agent loses its connection; its tasks keep running
//	POST   /fleet/instances/ID/reconnect    the machine runs and its agent is connected again
//	POST   /fleet/tasks/ID/exit             {"exitCode"}: the task exits
//	POST   /fleet/tasks/ID/target           {"reason"}: its target health checks fail; with an empty reason they pass
//
// Ids are those of ECS. A body, at least {}, is JSON and must be declared so in Content-Type, which
// keeps web pages out.
func newHandler(f *sim.AWS, log *slog.Logger) http.Handler {
	ecs := f.ECS.Endpoint()
	ecs.Guard = transport.Guard{Loopback: true, Log: log}
	mux := http.NewServeMux()
	mux.Handle("/", f.ServeProtocols(ecs))
	mux.HandleFunc("POST /fleet/instances", func(w http.ResponseWriter, r *http.Request) { serveAddInstances(f, w, r) })
	mux.HandleFunc("DELETE /fleet/instances/{id}", controlHandler(f.Machines.KillInstance))
	mux.HandleFunc("POST /fleet/instances/{id}/crash", controlHandler(f.Machines.CrashInstance))
	mux.HandleFunc("POST /fleet/instances/{id}/disconnect", controlHandler(f.Machines.DisconnectAgent))
	mux.HandleFunc("POST /fleet/instances/{id}/reconnect", controlHandler(f.Machines.ReconnectAgent))
	mux.HandleFunc("POST /fleet/tasks/{id}/target", func(w http.ResponseWriter,
		r *http.Request) {
		serveTargetHealth(f, w, r)
	})
	mux.HandleFunc("POST /fleet/tasks/{id}/exit", func(w http.ResponseWriter,
		r *http.Request) {
		serveTaskExit(f, w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fleet/") && !isLocalRequest(r) {
			writeError(w, http.StatusForbidden,
				"the fleet can be changed only from this machine, with Content-Type application/json")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLocalRequest reports that no web page can have sent the request. A page cannot use a loopback
// name for its own server, and browsers ask before they send this Content-Type, or DELETE, to
// another origin.
func isLocalRequest(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return false
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return r.Method != http.MethodPost || err == nil && media == "application/json"
}

// controlHandler serves a call that acts on the instance or task in the path. Any error is the
// caller's.
func controlHandler(act func(id string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := act(r.PathValue("id")); err != nil {
			writeError(w, http.StatusBadRequest, err.Error())
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{})
	}
}

// serveAddInstances serves POST /fleet/instances.
func serveAddInstances(f *sim.AWS, w http.ResponseWriter, r *http.Request) {
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
	ids, err := f.Machines.AddInstances(in.Cluster, in.Count, ec2.Machine{Type: in.Type, Zones: in.Zones})
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"ids": ids})
}

// maxNodes is the most container instances that ECS allows in a cluster.
const maxNodes = 5000

// serveTaskExit serves POST /fleet/tasks/ID/exit.
func serveTaskExit(f *sim.AWS, w http.ResponseWriter, r *http.Request) {
	var in struct{ ExitCode int }
	if !decodeRequestBody(w, r, &in) {
		return
	}
	controlHandler(func(id string) error { return f.Machines.CrashTask(id, in.ExitCode) })(w, r)
}

// serveTargetHealth serves POST /fleet/tasks/ID/target.
func serveTargetHealth(f *sim.AWS, w http.ResponseWriter, r *http.Request) {
	var in struct{ Reason string }
	if !decodeRequestBody(w, r, &in) {
		return
	}
	controlHandler(func(id string) error { return f.Machines.SetTargetHealth(id, in.Reason) })(w, r)
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
