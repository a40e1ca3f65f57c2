package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/cmd/berth/chart"
	"berth/cmd/berth/whatif"
	"berth/shared/wire/transport"
)

//go:embed static
var staticFiles embed.FS

// Options say what a console shows, and to whom.
type Options struct {
	Source Source
	// Cluster is shown where an address names none.
	Cluster string
	// Token must be given once, in the address, by the browser that may see the pages. If it is
	// empty, everyone who reaches the console may.
	Token string
	// API makes the changes that pages offer, if its caller may write. If it is nil, pages only
	// read.
	API API
}

// Console serves the pages. Close it to end the streams of open pages.
type Console struct {
	Options
	gate    *gate
	mux     *http.ServeMux
	streams atomic.Int32
	closed  chan struct{}
	close   sync.Once
	// formToken is in every form that changes something. Pages of other origins cannot read it.
	formToken string
	rights    rights
}

// New returns a console.
func New(o Options) *Console {
	c := &Console{Options: o, gate: newGate(o.Token), mux: http.NewServeMux(), closed: make(chan struct{}),
		formToken: NewToken()}
	c.mux.HandleFunc("GET /{$}", c.page("problems", c.showProblems))
	c.mux.HandleFunc("GET /console/map", c.page("map", c.showMap))
	c.mux.HandleFunc("GET /console/services", c.page("services", showServices))
	c.mux.HandleFunc("GET /console/service/{name}", c.page("service", showService))
	c.mux.HandleFunc("GET /console/tasks", c.page("tasks", showTasks))
	c.mux.HandleFunc("GET /console/task/{id}", c.page("task", showTask))
	c.mux.HandleFunc("GET /console/instance/{id}", c.page("instance", c.showInstance))
	c.mux.HandleFunc("GET /console/capacity", c.page("capacity", c.showCapacity))
	c.mux.HandleFunc("GET /console/events", c.page("events", showEvents))
	c.mux.HandleFunc("GET /console/whatif", c.page("whatif", showWhatif))
	c.mux.HandleFunc("GET /console/rebalancing", c.page("rebalancing", showRebalancing))
	c.mux.HandleFunc("GET /console/static/chart.css", serveChartStyle)
	c.mux.HandleFunc("GET /console/change/{kind}", c.page("change", c.showChange))
	c.mux.HandleFunc("POST /console/change/{kind}", c.makeChange)
	c.mux.HandleFunc("GET /console/live", c.serveChanges)
	c.mux.HandleFunc("GET /console/", c.page("fault", showUnknown))
	static, _ := fs.Sub(staticFiles, "static") // the folder is embedded above
	c.mux.Handle("GET /console/static/", http.StripPrefix("/console/static/", http.FileServerFS(static)))
	return c
}

// viewNames are the pages that a person may type the address of.
var viewNames = []string{"map", "services", "tasks", "capacity", "events", "whatif", "rebalancing"}

// showUnknown says that there is no such page, and which one may have been meant.
func showUnknown(r *http.Request, _ *view) error {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/console/"), "/")
	return &whatif.NotFound{Kind: "page", Name: name, Known: viewNames}
}

// serveChartStyle serves the style of the figures.
func serveChartStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = io.WriteString(w, chart.CSS) // a browser that has gone does not matter
}

// Address returns what a person must open to see the pages: it has the token, if one is needed.
func (c *Console) Address(endpoint string) string {
	return address(endpoint+"/", "token", c.Token)
}

// Close ends the streams of open pages, so that the server can end.
func (c *Console) Close() { c.close.Do(func() { close(c.closed) }) }

// IsPage reports whether a request is for the console and not for an API: no API has these paths.
func IsPage(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/console/") ||
		r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// Handler serves pages, and passes every other request on.
func (c *Console) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if IsPage(r) {
			c.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// policy allows a page its own style, script and streams, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP serves a page to this machine's browser. As the API does, it refuses requests for
// another host, and those of pages of another origin.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", transport.NoSniff)
	// With no-referrer, browsers would not say which origin a form is of.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := transport.CheckLoopback(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if !c.gate.admit(w, r) {
		return
	}
	c.mux.ServeHTTP(w, r)
}

// page serves a template with what show makes of the cluster.
func (c *Console) page(name string, show func(r *http.Request, v *view) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := c.newView(name, r)
		if name == "map" && c.isUnchanged(w, r, v.Cluster) {
			return
		}
		c.write(w, r, v, c.fill(r, v, show))
	}
}

// newView returns what a page begins with.
func (c *Console) newView(name string, r *http.Request) *view {
	q := r.URL.Query()
	return &view{Page: name, Query: q, Cluster: cmp.Or(q.Get("cluster"), c.Cluster),
		MayChange: c.mayWrite(r.Context()), FormToken: c.formToken}
}

// write sends the page, or one that says what went wrong.
func (c *Console) write(w http.ResponseWriter, r *http.Request, v *view, err error) {
	status := http.StatusOK
	if err != nil {
		status, v.Page, v.Fault = statusOf(err), "fault", err.Error()
	}
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, "layout", v); err != nil {
		http.Error(w, "the page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	c.answer(w, r, status, v, body.Bytes())
}

// isUnchanged answers a request for a map that the browser has. Everything on a map is of the
// cluster's generation; other pages say how long something lasts, too.
func (c *Console) isUnchanged(w http.ResponseWriter, r *http.Request, clusterName string) bool {
	w.Header().Set("Cache-Control", "private, no-cache")
	now, err := c.Source.Generation(r.Context(), clusterName)
	if err != nil || now == "" || r.Header.Get("If-None-Match") != entityTag(now) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

func entityTag(generation string) string { return `W/"` + generation + `"` }

// fill reads the cluster into the view.
func (c *Console) fill(r *http.Request, v *view, show func(r *http.Request, v *view) error) error {
	names, err := c.Source.ClusterNames(r.Context())
	if err != nil {
		return err
	}
	v.Clusters = names
	return c.Source.View(r.Context(), v.Cluster, func(w *World) error {
		v.World = w
		v.Generation = w.Generation
		err := show(r, v)
		v.World = nil // the template must not use what others change
		v.Summary, v.Wrong, v.Now = w.Report.Summary(), len(w.Report.Problems), w.Now
		return err
	})
}

// answer sends a page, compressed if the browser can read that.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, status int, v *view, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Vary", "Accept-Encoding")
	if v.Page == "map" {
		h.Set("ETag", entityTag(v.Generation))
	}
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(body) // a browser that has gone does not matter
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
	_, _ = z.Write(body)
	_ = z.Close()
}

// The bounds of the streams that tell pages of changes.
const (
	maxStreams   = 64
	changeEvery  = time.Second
	pingInterval = 15 * time.Second
)

// serveChanges sends an event each time that the cluster has changed, at most one a second.
func (c *Console) serveChanges(w http.ResponseWriter, r *http.Request) {
	if c.streams.Add(1) > maxStreams {
		c.streams.Add(-1)
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer c.streams.Add(-1)
	name, shown := r.URL.Query().Get("cluster"), r.URL.Query().Get("generation")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's limit is for requests, and this one is long
	w.Header().Set("Content-Type", "text/event-stream")
	_ = control.Flush() // so that the page knows that it is connected
	ticker := time.NewTicker(changeEvery)
	defer ticker.Stop()
	for last := time.Now(); ; {
		now, err := c.Source.Generation(r.Context(), name)
		text := ""
		switch {
		case err != nil:
			return
		case now != shown:
			shown, text = now, fmt.Sprintf("event: change\ndata: %s\n\n", now)
		case time.Since(last) > pingInterval:
			text = ": still here\n\n"
		}
		if text != "" {
			last = time.Now()
			if _, err := w.Write([]byte(text)); err != nil || control.Flush() != nil {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-c.closed:
			return
		}
	}
}

// address returns a page's address with parameters; those without a value are left out.
func address(path string, parameters ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			q.Set(parameters[i], parameters[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
