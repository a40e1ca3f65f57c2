package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
)

// NotFoundError is the API's error about a cluster or a service that does not exist. The API's own words
// name neither.
type NotFoundError struct {
	error
	Cluster string
	Service string // empty if the cluster does not exist
	Nearest string // name that exists; empty if none is near
}

// Error names what does not exist, and the nearest name that does.
func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("there is no cluster %q", e.Cluster)
	if e.Service != "" {
		text = fmt.Sprintf("service %q is not in cluster %q", e.Service, e.Cluster)
	}
	if e.Nearest != "" {
		text += fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return text
}

// Unwrap returns the API's error.
func (e *NotFoundError) Unwrap() error { return e.error }

// nameMissing names the cluster or the service that an error is about, given the request's body. Other
// errors stay as they are.
func (c *Client) nameMissing(ctx context.Context, body []byte, err error) error {
	var in struct {
		Cluster, ClusterName, Service, ServiceName string
		Services                                   []string
	}
	code := cluster.ErrorCode(err)
	if code != cluster.CodeClusterNotFound && code != cluster.CodeServiceNotFound || json.Unmarshal(body, &in) != nil {
		return err
	}
	out := &NotFoundError{error: err, Cluster: cluster.LastPart(cmp.Or(in.Cluster, in.ClusterName, "default"))}
	name, list := out.Cluster, c.ClusterNames
	if code == cluster.CodeServiceNotFound {
		out.Service = cluster.LastPart(cmp.Or(in.Service, in.ServiceName, strings.Join(in.Services, ",")))
		name = out.Service
		list = func(ctx context.Context) ([]string, error) { return c.ServiceNames(ctx, out.Cluster) }
	}
	known, unlisted := list(ctx)
	if name == "" || slices.Contains(known, name) {
		return err // the error is about something else, or no longer true
	}
	if unlisted == nil {
		out.Nearest = choice.Nearest(name, known)
	}
	return out
}
