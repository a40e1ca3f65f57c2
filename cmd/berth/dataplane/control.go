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
)

// newHandler answers ECS's protocol at /, and below /fleet/ what ECS has no call for:
//
//	POST   /fleet/instances                 {"cluster", "count", "type", "zones"}: machines join; gives their ids
//	DELETE /fleet/instances/ID              the machine is terminated, without a word to anybody but ECS
//	POST   /fleet/instances/ID/crash        the machine goes off, as does its agent
//	POST   /fleet/instances/ID/disconnect   its agent loses ECS; its tasks go on
//	POST   /fleet/instances/ID/reconnect    the machine is on and its agent has ECS again
//	POST   /fleet/tasks/ID/exit             {"exitCode"}: the task ends by itself
//	POST   /fleet/tasks/ID/target           {"reason"}: it fails the checks of its target groups; passes them where empty
//
// At / it also answers other protocols, as far as [sim.AWS.Protocols] does.
//
// Ids are those of ECS. A body, {} at least, is JSON and says so in its Content-Type, which keeps
// web pages out.
func newHandler(f *sim.AWS, log *slog.Logger) http.Handler {
	ecs := f.ECS.Endpoint()
	ecs.Loopback, ecs.Logger = true, log
	mux := http.NewServeMux()
	mux.Handle("/", f.ServeProtocols(ecs))
	mux.HandleFunc("POST /fleet/instances", func(w http.ResponseWriter, r *http.Request) { addInstances(f, w, r) })
	mux.HandleFunc("DELETE /fleet/instances/{id}", controlHandler(f.Machines.KillInstance))
	mux.HandleFunc("POST /fleet/instances/{id}/crash", controlHandler(f.Machines.CrashInstance))
	mux.HandleFunc("POST /fleet/instances/{id}/disconnect", controlHandler(f.Machines.DisconnectAgent))
	mux.HandleFunc("POST /fleet/instances/{id}/reconnect", controlHandler(f.Machines.ReconnectAgent))
	mux.HandleFunc("POST /fleet/tasks/{id}/target", func(w http.ResponseWriter,
		r *http.Request) {
		failTarget(f, w, r)
	})
	mux.HandleFunc("POST /fleet/tasks/{id}/exit", func(w http.ResponseWriter, r *http.Request) { exitTask(f, w, r) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fleet/") && !fromHere(r) {
			writeError(w, http.StatusForbidden,
				"the fleet is changed from this machine alone, with Content-Type application/json")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// fromHere reports that no web page can have sent the request: not by a name of its own for this
// machine, and not across origins, as a page may not set this Content-Type there, nor DELETE,
// without being asked first.
func fromHere(r *http.Request) bool {
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

func controlHandler(act func(id string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := act(r.PathValue("id")); err != nil {
			writeError(w, http.StatusBadRequest, err.Error())
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{})
	}
}

func addInstances(f *sim.AWS, w http.ResponseWriter, r *http.Request) {
	in := struct {
		Cluster string
		Count   int
		Type    string
		Zones   []string
	}{Cluster: "default", Count: 1, Type: "m5.large"}
	if !decodeBody(w, r, &in) {
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

const maxNodes = 5000

func exitTask(f *sim.AWS, w http.ResponseWriter, r *http.Request) {
	var in struct{ ExitCode int }
	if !decodeBody(w, r, &in) {
		return
	}
	controlHandler(func(id string) error { return f.Machines.CrashTask(id, in.ExitCode) })(w, r)
}

func failTarget(f *sim.AWS, w http.ResponseWriter, r *http.Request) {
	var in struct{ Reason string }
	if !decodeBody(w, r, &in) {
		return
	}
	controlHandler(func(id string) error { return f.Machines.SetTargetHealth(id, in.Reason) })(w, r)
}

func decodeBody(w http.ResponseWriter, r *http.Request, into any) bool {
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
	_ = json.NewEncoder(w).Encode(body) // a caller who has gone does not matter
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}
