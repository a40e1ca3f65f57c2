package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"berth/shared/cluster"
)

// The EKS API, as far as node groups of container instances need it, is REST-JSON under /clusters/: no request of the ECS
// API has a path.

const (
	eksPath        = "/clusters/"
	eksContentType = "application/json"
	eksPage        = 100 // of a list, where the caller says nothing
)

// eksCall is one request of the EKS API.
type eksCall struct {
	cluster   string
	nodeGroup string // by the path, or else by the query
	update    string
	query     url.Values
	body      []byte
}

type eksOperation func(ctx context.Context, c *eksCall) (any, error)

// eksRoute is an operation with its method and its path below /clusters/: {n} is the node group, {u} the update.
type eksRoute struct {
	name, method, path string
	serve              eksOperation
}

// eksRoutes are the operations that are served (EKS API reference).
func (s *server) eksRoutes(g NodeGroups) []eksRoute {
	e := &eksServer{references: s.references, groups: g}
	return []eksRoute{
		{"CreateNodegroup", http.MethodPost, "node-groups", e.createNodegroup},
		{"ListNodegroups", http.MethodGet, "node-groups", e.listNodegroups},
		{"DescribeNodegroup", http.MethodGet, "node-groups/{n}", e.describeNodegroup},
		{"DeleteNodegroup", http.MethodDelete, "node-groups/{n}", e.deleteNodegroup},
		{"UpdateNodegroupConfig", http.MethodPost, "node-groups/{n}/update-config", e.updateNodegroupConfig},
		{"UpdateNodegroupVersion", http.MethodPost, "node-groups/{n}/update-version", e.updateNodegroupVersion},
		{"ListUpdates", http.MethodGet, "updates", e.listUpdates},
		{"DescribeUpdate", http.MethodGet, "updates/{u}", e.describeUpdate},
	}
}

// serveEKS answers a request whose path is below /clusters/.
func (m *Mux) serveEKS(w http.ResponseWriter, r *http.Request) (status int, answer []byte) {
	c := &eksCall{query: r.URL.Query()}
	name, f, err := m.eksRoute(r, c)
	var out any
	if err == nil {
		c.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long):
			err = tooLarge()
		case err != nil:
			err = cluster.Errorf(cluster.CodeSerialization, "The request ended early.")
		default:
			out, err = m.guarded(r.Context(), name, func(ctx context.Context) (any, error) { return f(ctx, c) })
		}
	}
	if err == nil {
		answer, err = json.Marshal(out)
	}
	if err != nil {
		return eksFailure(w, c, err)
	}
	return http.StatusOK, answer
}

// eksRoute finds the operation of a request and reads its path.
func (m *Mux) eksRoute(r *http.Request, c *eksCall) (string, eksOperation, error) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), eksPath), "/")
	for i, p := range parts {
		plain, err := url.PathUnescape(p)
		if err != nil {
			return "", nil, invalid("The path cannot be read.")
		}
		parts[i] = plain
	}
	c.cluster = parts[0]
	for _, route := range m.eks {
		pattern := strings.Split(route.path, "/")
		if route.method != r.Method || len(pattern) != len(parts)-1 || !c.match(pattern, parts[1:]) {
			continue
		}
		return route.name, route.serve, nil
	}
	return "", nil, cluster.Errorf(cluster.CodeUnknownOperation, "No operation on node groups of the EKS API has the method %.20s and the path %.300s.",
		r.Method, r.URL.Path)
}

func (c *eksCall) match(pattern, parts []string) bool {
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

// eksFailure is an error in REST-JSON, with the codes and the HTTP statuses of the EKS API.
func eksFailure(w http.ResponseWriter, c *eksCall, err error) (status int, answer []byte) {
	e := &cluster.Error{Code: cluster.CodeServer, Message: "Service Unavailable. Please try again later."}
	if cluster.ErrorCode(err) != cluster.CodeServer {
		errors.As(err, &e)
	}
	code, message := e.Code, e.Message
	status = http.StatusBadRequest
	switch code {
	case cluster.CodeServer:
		status = http.StatusInternalServerError
	case cluster.CodeClusterNotFound:
		status, code, message = http.StatusNotFound, cluster.CodeResourceNotFound, "No cluster found for name: "+c.cluster+"."
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

// limit is how many items a page of a list has.
func (c *eksCall) limit() (int, error) {
	given := c.query.Get("maxResults")
	if given == "" {
		return eksPage, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 || n > eksPage {
		return 0, invalid("maxResults is %.20s, but must be between 1 and %d.", given, eksPage)
	}
	return n, nil
}
