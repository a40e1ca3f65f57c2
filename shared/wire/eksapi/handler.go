package eksapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"berth/shared/cluster"
	"berth/shared/wire/input"
	"berth/shared/wire/transport"
)

const (
	contentType = "application/json"
	maxPage     = 100 // of a list, where the caller says nothing
)

// A call is one request of the EKS API: the names in its path and query, and its body.
type call struct {
	cluster   string
	nodeGroup string // by the path, or else by the query
	update    string
	resource  string // ARN, of the operations on tags
	query     url.Values
	body      []byte
}

// A route is an operation with its method and its path. In the path, {c} is a cluster, {n} a node
// group, {u} an update, {arn} everything that is left, and {} a name of something that Berth does
// not have.
type route struct {
	name, method, path string
	serve              func(ctx context.Context, c *call) (any, error)
}

// A Handler answers the EKS API's operations on node groups over HTTP.
type Handler struct {
	guard  transport.Guard
	routes []route
}

// NewHandler answers the EKS API for the node groups to whom the guard lets pass.
func NewHandler(account cluster.Account, g NodeGroups, guard transport.Guard) *Handler {
	return &Handler{guard, append((&server{account, g}).routes(), refusedRoutes()...)}
}

// routes returns the operations that are served.
func (e *server) routes() []route {
	return []route{
		{"ListClusters", http.MethodGet, "/clusters", e.listClusters},
		{"DescribeCluster", http.MethodGet, "/clusters/{c}", e.describeCluster},
		{"CreateNodegroup", http.MethodPost, "/clusters/{c}/node-groups", e.createNodegroup},
		{"ListNodegroups", http.MethodGet, "/clusters/{c}/node-groups", e.listNodegroups},
		{"DescribeNodegroup", http.MethodGet, "/clusters/{c}/node-groups/{n}", e.describeNodegroup},
		{"DeleteNodegroup", http.MethodDelete, "/clusters/{c}/node-groups/{n}", e.deleteNodegroup},
		{"UpdateNodegroupConfig", http.MethodPost, "/clusters/{c}/node-groups/{n}/update-config",
			e.updateNodegroupConfig},
		{"UpdateNodegroupVersion", http.MethodPost, "/clusters/{c}/node-groups/{n}/update-version",
			e.updateNodegroupVersion},
		{"ListUpdates", http.MethodGet, "/clusters/{c}/updates", e.listUpdates},
		{"DescribeUpdate", http.MethodGet, "/clusters/{c}/updates/{u}", e.describeUpdate},
		{"CancelUpdate", http.MethodPost, "/clusters/{c}/updates/{u}/cancel-update", e.cancelUpdate},
		{"TagResource", http.MethodPost, "/tags/{arn}", e.tagResource},
		{"UntagResource", http.MethodDelete, "/tags/{arn}", e.untagResource},
		{"ListTagsForResource", http.MethodGet, "/tags/{arn}", e.listTagsForResource},
	}
}

// ServeHTTP answers a request. Who sent it must have been established before.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{query: r.URL.Query()}
	answer, err := h.answerRequest(w, r, c)
	status := http.StatusOK
	if err != nil {
		status, answer = encodeError(w, c, err)
	}
	transport.WriteAnswer(w, contentType, status, answer)
}

// answerRequest runs the operation of a request and returns the body of its answer. It fills in c,
// which an error's answer shows too.
func (h *Handler) answerRequest(w http.ResponseWriter, r *http.Request, c *call) ([]byte, error) {
	if err := h.guard.Admit(r); err != nil {
		return nil, err
	}
	name, serve, err := h.findRoute(r, c)
	if err != nil {
		return nil, err
	}
	if c.body, err = transport.ReadBody(w, r); err != nil {
		return nil, err
	}
	var out any
	err = h.guard.Run(r.Context(), name, func() (err error) {
		out, err = serve(r.Context(), c)
		return err
	})
	if err != nil {
		return nil, err
	}
	h.guard.LogChange(r.Context(), name, c.subject)
	return json.Marshal(out)
}

// subject names the node group that a request is about, for the log.
func (c *call) subject() string {
	if c.resource != "" {
		return c.resource
	}
	name := c.nodeGroup
	if name == "" {
		var in struct{ NodegroupName string }
		_ = json.Unmarshal(c.body, &in) // a body that could not be read was refused before
		name = in.NodegroupName
	}
	return c.cluster + "/" + name
}

// findRoute returns the operation of a request and its name, and reads the names in its path. They
// are unescaped one by one, so that a name may contain an escaped slash without changing the path.
func (h *Handler) findRoute(r *http.Request, c *call) (string, func(context.Context, *call) (any, error), error) {
	parts := strings.Split(r.URL.EscapedPath(), "/")
	for i, p := range parts {
		plain, err := url.PathUnescape(p)
		if err != nil {
			return "", nil, input.Invalid("The path cannot be read.")
		}
		parts[i] = plain
	}
	for _, route := range h.routes {
		if route.method == r.Method && c.matchPath(strings.Split(route.path, "/"), parts) {
			return route.name, route.serve, nil
		}
	}
	return "", nil, cluster.Errorf(cluster.CodeMissingToken, "Missing Authentication Token")
}

// matchPath reports whether the parts of a path match the pattern, and takes the names from them.
// Operations on updates have the node group in the query.
func (c *call) matchPath(pattern, parts []string) bool {
	found := call{nodeGroup: c.query.Get("nodegroupName"), query: c.query}
	for i, p := range pattern {
		switch {
		case i >= len(parts):
			return false
		case p == "{arn}":
			// A proxy may have unescaped the slashes in the ARN.
			found.resource = strings.Join(parts[i:], "/")
			*c = found
			return found.resource != ""
		case p == "{c}":
			found.cluster = parts[i]
		case p == "{n}":
			found.nodeGroup = parts[i]
		case p == "{u}":
			found.update = parts[i]
		case p != "{}" && p != parts[i]:
			return false
		}
	}
	if len(parts) != len(pattern) {
		return false
	}
	*c = found
	return true
}

// encodeError returns an error in the REST protocol, with the codes and HTTP statuses of the EKS
// API. An unknown cluster, which ECS's API calls ClusterNotFoundException, is a
// ResourceNotFoundException there. The names of cluster and node group come with every error, as
// EKS's errors have them.
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
	case cluster.CodeUnsupported: // EKS has no code of its own for it
		code = cluster.CodeInvalidParameter
	case cluster.CodeResourceNotFound, cluster.CodeNotFound:
		status = http.StatusNotFound
	case cluster.CodeResourceInUse:
		status = http.StatusConflict
	case cluster.CodeAccessDenied, cluster.CodeMissingToken:
		status = http.StatusForbidden
	case cluster.CodeRequestEntityTooBig:
		status = http.StatusRequestEntityTooLarge
	case cluster.CodeThrottling:
		status = http.StatusTooManyRequests
	}
	w.Header().Set("X-Amzn-ErrorType", string(code))
	// The code is in the body too: something between a client and Berth may rename headers of AWS.
	body := map[string]string{"code": string(code), "message": message}
	for member, v := range map[string]string{"clusterName": c.cluster, "nodegroupName": c.nodeGroup} {
		if v != "" {
			body[member] = v
		}
	}
	answer, _ = json.Marshal(body) // strings cannot fail
	return status, answer
}
