package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"berth/shared/cluster"
	"berth/shared/spelling"
)

// NearestError is an error about a cluster or service that does not exist, with the nearest name that
// does.
type NearestError struct {
	error
	Nearest string
}

// Error ends with a question, after the sentence of the API.
func (e *NearestError) Error() string {
	return fmt.Sprintf("%s Did you mean %q?", e.error.Error(), e.Nearest)
}

// Unwrap returns the API's error.
func (e *NearestError) Unwrap() error { return e.error }

// addNearest adds the nearest name to an error about a cluster or a service, given the request's body.
// If the names cannot be listed, or none is near, the error stays as it is.
func (c *Client) addNearest(ctx context.Context, body []byte, err error) error {
	var in struct {
		Cluster, ClusterName, Service, ServiceName string
		Services                                   []string
	}
	code := cluster.ErrorCode(err)
	if code != cluster.CodeClusterNotFound && code != cluster.CodeServiceNotFound || json.Unmarshal(body, &in) != nil {
		return err
	}
	in.Cluster = cluster.LastPart(cmp.Or(in.Cluster, in.ClusterName, "default"))
	name, list := in.Cluster, c.ClusterNames
	if code == cluster.CodeServiceNotFound {
		name = cluster.LastPart(cmp.Or(in.Service, in.ServiceName, strings.Join(in.Services, ",")))
		list = func(ctx context.Context) ([]string, error) { return c.ServiceNames(ctx, in.Cluster) }
	}
	known, unlisted := list(ctx)
	nearest := spelling.Nearest(name, known)
	if unlisted != nil || nearest == "" || nearest == name {
		return err
	}
	return &NearestError{err, nearest}
}
