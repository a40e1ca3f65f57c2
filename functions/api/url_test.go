package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"berth/functions/internal/eventsource"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/state"
	"berth/shared/wire"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/transport"
)

type noon struct{ handler.Clock }

func (noon) Now() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// Calls of the EKS API keep their method, path, query and caller on the way through the function
// URL.
func TestFunctionURLServesNodeGroups(t *testing.T) {
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Write(t.Context(), state.Write{Put: &state.Meta{Head: cluster.Head{Cluster: "prod",
		Rev: 1}}}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	operations := api.New(api.Dependencies{State: store, Clock: noon{}, Settings: handler.DefaultSettings()})
	f := &eventsource.Function{WithPrincipal: transport.WithPrincipal, URL: wire.NewServer(wire.ServerOptions{
		Options: ecsapi.Options{
			Account: cluster.Account{ID: "123456789012", Region: "eu-west-1"},
			Logger:  slog.New(slog.NewTextHandler(&log, nil)), Enforce: true,
		},
		NodeGroups: operations.NodeGroups,
	})}
	for _, c := range []struct {
		method, path, query, body string
		status                    int
		text                      string
	}{
		{"POST", "/clusters/prod/node-groups", "",
			`{"nodegroupName":"web","subnets":["subnet-1"],"nodeRole":"r","tags":{"berth:auto-scaling-group":"asg"}}`,
			200, `"status":"CREATING"`},
		{"GET", "/clusters/prod/node-groups", "maxResults=1", "", 200, `{"nodegroups":["web"]}`},
		{"GET", "/clusters/prod/node-groups/web", "", "", 200, `"nodegroupName":"web"`},
		{"POST", "/clusters/prod/node-groups/web/update-version", "", `{"releaseVersion":"ami-2"}`, 409,
			"not in Active State"},
		{"GET", "/clusters/prod/updates", "nodegroupName=web", "", 200, `{"updateIds":[]}`},
		{"GET", "/clusters/prod/updates", "nodegroupName=none", "", 404, "No node group found for name: none."},
		{"DELETE", "/clusters/prod/node-groups/web", "", "", 200, `"status":"DELETING"`},
	} {
		in := events.LambdaFunctionURLRequest{Version: "2.0", RawPath: c.path, RawQueryString: c.query, Body: c.body}
		in.RequestContext.HTTP.Method, in.RequestContext.HTTP.Path = c.method, c.path
		in.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
			IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: "arn:aws:iam::123456789012:user/ada"},
		}
		event, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := f.Invoke(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		out, ok := answer.(events.LambdaFunctionURLResponse)
		if !ok || out.StatusCode != c.status || !strings.Contains(out.Body, c.text) ||
			out.Headers["Content-Type"] != "application/json" {
			t.Errorf("%s %s: %s, want %d with %s", c.method, c.path, fmt.Sprint(answer), c.status, c.text)
		}
	}
	for _, op := range []string{"CreateNodegroup", "DeleteNodegroup"} {
		if !strings.Contains(log.String(), "operation="+op+" principal=arn:aws:iam::123456789012:user/ada") {
			t.Errorf("the log does not say who called %s: %s", op, log.String())
		}
	}
}
