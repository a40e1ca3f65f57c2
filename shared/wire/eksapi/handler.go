package eksapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"berth/shared/cluster"
	"berth/shared/wire/input"
	"berth/shared/wire/transport"
)

const (
	Prefix      = "/clusters/"
	contentType = "application/json"
	maxPage     = 100 // of a list, where the caller says nothing
)

// call is one request of the EKS API.
type call struct {
	cluster   string
	nodeGroup string // by the path, or else by the query
	update    string
	query     url.Values
	body      []byte
}

// route is an operation with its method and its path below /clusters/: {n} is the node group, {u}
// the update.
type route struct {
	name, method, path string
	serve              func(ctx context.Context, c *call) (any, error)
}

// Handler answers the operations on node groups of the EKS API by HTTP.
type Handler struct {
	loopback bool
	log      *slog.Logger
	routes   []route
}

// NewHandler answers the EKS API for the node groups. With loopback it refuses what a web page
// could have sent, see [CheckLoopback]; log gets one line per change, with the principal, and
// faults.
func NewHandler(account cluster.Account, g NodeGroups, loopback bool, log *slog.Logger) *Handler {
	e := &server{account, g}
	return &Handler{loopback, log, []route{
		{"CreateNodegroup", http.MethodPost, "node-groups", e.createNodegroup},
		{"ListNodegroups", http.MethodGet, "node-groups", e.listNodegroups},
		{"DescribeNodegroup", http.MethodGet, "node-groups/{n}", e.describeNodegroup},
		{"DeleteNodegroup", http.MethodDelete, "node-groups/{n}", e.deleteNodegroup},
		{"UpdateNodegroupConfig", http.MethodPost, "node-groups/{n}/update-config", e.updateNodegroupConfig},
		{"UpdateNodegroupVersion", http.MethodPost, "node-groups/{n}/update-version", e.updateNodegroupVersion},
		{"ListUpdates", http.MethodGet, "updates", e.listUpdates},
		{"DescribeUpdate", http.MethodGet, "updates/{u}", e.describeUpdate},
	}}
}

// ServeHTTP answers a request whose path is below /clusters/.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{query: r.URL.Query()}
	answer, err := h.answerRequest(w, r, c)
	status := http.StatusOK
	if err != nil {
		status, answer = encodeError(w, c, err)
	}
	transport.WriteAnswer(w, contentType, status, answer)
}

func (h *Handler) answerRequest(w http.ResponseWriter, r *http.Request, c *call) ([]byte, error) {
	if h.loopback {
		if err := transport.CheckLoopback(r); err != nil {
			return nil, err
		}
	}
	name, serve, err := h.findRoute(r, c)
	if err != nil {
		return nil, err
	}
	if c.body, err = transport.ReadBody(w, r); err != nil {
		return nil, err
	}
	var out any
	err = transport.RunGuarded(r.Context(), h.log, name, func() (err error) {
		out, err = serve(r.Context(), c)
		return err
	})
	if err != nil {
		return nil, err
	}
	transport.LogChange(r.Context(), h.log, name)
	return json.Marshal(out)
}

// findRoute finds the operation of a request and reads its path.
func (h *Handler) findRoute(r *http.Request, c *call) (string, func(context.Context, *call) (any, error), error) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), Prefix), "/")
	for i, p := range parts {
		plain, err := url.PathUnescape(p)
		if err != nil {
			return "", nil, input.Invalid("The path cannot be read.")
		}
		parts[i] = plain
	}
	c.cluster = parts[0]
	for _, route := range h.routes {
		pattern := strings.Split(route.path, "/")
		if route.method != r.Method || len(pattern) != len(parts)-1 || !c.matchPath(pattern, parts[1:]) {
			continue
		}
		return route.name, route.serve, nil
	}
	return "", nil, cluster.Errorf(cluster.CodeUnknownOperation,
		"No operation on node groups of the EKS API has the method %.20s and the path %.300s.",
		r.Method, r.URL.Path)
}

func (c *call) matchPath(pattern, parts []string) bool {
	group, update := c.query.Get("nodegroupName"), ""
	for i, p := range pattern {
		switch p {
		case "{n}":
			group = parts[i]
		case "{u}":
			update = parts[i]
		case parts[i]:
		default:
			return false
		}
	}
	c.nodeGroup, c.update = group, update
	return true
}

// encodeError is an error in REST-JSON, with the codes and the HTTP statuses of the EKS API.
func encodeError(w http.ResponseWriter, c *call, err error) (status int, answer []byte) {
	e := transport.PublicError(err)
	code, message := e.Code, e.Message
	status = http.StatusBadRequest
	switch code {
	case cluster.CodeServer:
		status = http.StatusInternalServerError
	case cluster.CodeClusterNotFound:
		status, code, message = http.StatusNotFound, cluster.CodeResourceNotFound,
			"No cluster found for name: "+c.cluster+"."
	case cluster.CodeResourceNotFound, cluster.CodeUnknownOperation:
		status = http.StatusNotFound
	case cluster.CodeResourceInUse:
		status = http.StatusConflict
	case cluster.CodeAccessDenied:
		status = http.StatusForbidden
	case cluster.CodeRequestEntityTooBig:
		status = http.StatusRequestEntityTooLarge
	}
	w.Header().Set("X-Amzn-ErrorType", string(code))
	body := map[string]string{"message": message}
	for member, v := range map[string]string{"clusterName": c.cluster, "nodegroupName": c.nodeGroup} {
		if v != "" {
			body[member] = v
		}
	}
	answer, _ = json.Marshal(body) // strings cannot fail
	return status, answer
}
