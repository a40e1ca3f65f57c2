package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"berth/functions/internal/eventsource"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/state"
	"berth/shared/wire"
	"berth/shared/wire/access"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/berthapi"
	"berth/shared/wire/ecsapi"
	"berth/shared/wire/eksapi"
	"berth/shared/wire/transport"
)

const (
	writer  = "arn:aws:iam::123456789012:user/writer"
	manager = "arn:aws:sts::123456789012:assumed-role/node-groups/session"
	reader  = "arn:aws:iam::123456789012:user/reader"
	nobody  = ""
)

// eksPrefix stands before the names of the EKS API's operations: some are the ECS API's too.
const eksPrefix = "eks:"

// eksOperations are all operations of the EKS API, served and refused, by name with the prefix.
func eksOperations() map[string]eksapi.Endpoint {
	out := map[string]eksapi.Endpoint{}
	for _, all := range []map[string]eksapi.Endpoint{eksapi.Operations(), eksapi.RefusedOperations()} {
		for name, e := range all {
			e.Path = strings.NewReplacer("{c}", "prod", "{n}", "g", "{u}", "u", "{}", "x").Replace(e.Path)
			out[eksPrefix+name] = e
		}
	}
	return out
}

// guarded is the api function with one writer and one manager of node groups.
func guarded(t *testing.T, log *bytes.Buffer) *eventsource.Function {
	t.Helper()
	store, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Write(t.Context(), state.Write{Put: &state.Meta{Head: cluster.Head{Cluster: "prod",
		Rev: 1}}}); err != nil {
		t.Fatal(err)
	}
	h := api.New(api.Dependencies{State: store, Clock: noon{}, Settings: handler.DefaultSettings()})
	return &eventsource.Function{WithPrincipal: transport.WithPrincipal, URL: wire.NewServer(wire.ServerOptions{
		Options: ecsapi.Options{
			Account: cluster.Account{ID: "123456789012", Region: "eu-west-1"},
			Logger:  slog.New(slog.NewTextHandler(log, nil)), Enforce: true,
			Access: &access.Policy{Writers: []string{writer},
				NodeGroupManagers: []string{"arn:aws:iam::123456789012:role/ops/node-groups"}},
			ECS: upstreamDown{}, Resources: ecsapi.Resources{
				Clusters: h.Clusters, Services: h.Services, Deployments: h.Deployments, TaskSets: h.TaskSets,
				Tasks:           h.Tasks,
				TaskProtections: h.TaskProtections,
				Tags:            h.Tags, CapacityProviders: h.CapacityProviders, ClusterProviders: h.ClusterProviders,
				AccountSettings: h.AccountSettings,
			},
		},
		Own: berthapi.Resources{Configurations: h.Configurations, Services: h.Services, Loads: h.Loads,
			Rows: h.Rows},
		NodeGroups: h.NodeGroups,
	})}
}

// request calls an operation as the principal, through the function URL.
func request(t *testing.T, f *eventsource.Function, principal, operation, body string) (status int, answer string) {
	t.Helper()
	in := events.LambdaFunctionURLRequest{Version: "2.0", RawPath: "/", Body: body}
	in.RequestContext.HTTP.Method = http.MethodPost
	if e, ok := eksOperations()[operation]; ok {
		in.RequestContext.HTTP.Method, in.RawPath = e.Method, e.Path
	} else {
		target := operation
		if !strings.HasPrefix(operation, awsjson.OwnTarget) {
			target = "AmazonEC2ContainerServiceV20141113." + operation
		}
		in.Headers = map[string]string{"x-amz-target": target, "content-type": "application/x-amz-json-1.1"}
	}
	if principal != nobody {
		in.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
			IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: principal},
		}
	}
	event, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Invoke(t.Context(), event)
	got, ok := out.(events.LambdaFunctionURLResponse)
	if err != nil || !ok {
		t.Fatalf("%s as %q: %v, %v", operation, principal, out, err)
	}
	return got.StatusCode, got.Body
}

// TestEveryOperationAsEveryone calls every operation as everyone: readers may only read, writers
// and managers may change what their right allows.
func TestEveryOperationAsEveryone(t *testing.T) {
	operations := slices.Concat(slices.Collect(maps.Keys(ecsapi.Operations(ecsapi.Options{}))),
		slices.Collect(maps.Keys(berthapi.Operations(cluster.Account{}, berthapi.Resources{}, (*api.NodeGroups)(nil)))),
		slices.Collect(maps.Keys(eksOperations())))
	slices.Sort(operations)
	if len(operations) < 60 {
		t.Fatalf("%d operations were found", len(operations))
	}
	var log bytes.Buffer
	f := guarded(t, &log)
	for _, operation := range operations {
		right := access.RightFor(strings.TrimPrefix(strings.TrimPrefix(operation, awsjson.OwnTarget), eksPrefix))
		for principal, may := range map[string]bool{
			nobody: false, reader: right == access.Read, writer: right != access.ManageNodeGroups,
			manager: right != access.Write,
		} {
			log.Reset()
			status, answer := request(t, f, principal, operation, `{"cluster":"prod","secret":"hunter2"}`)
			refused := strings.Contains(answer, "AccessDeniedException") ||
				strings.Contains(answer, "not authorized to perform")
			if refused == may {
				t.Errorf("%s as %q: %d %s, want allowed %v", operation, principal, status, answer, may)
			}
			if strings.Contains(log.String(), "hunter2") {
				t.Errorf("%s as %q logs what nobody should read: %s", operation, principal, log.String())
			}
		}
	}
}

// Each change leaves one line in the log that names who, what and on what, and no secret.
func TestChangesAreLogged(t *testing.T) {
	var log bytes.Buffer
	f := guarded(t, &log)
	for _, c := range []struct{ principal, operation, body, subject string }{
		{manager, eksPrefix + "CreateNodegroup",
			`{"nodegroupName":"g","subnets":["subnet-1"],"nodeRole":"r","tags":{"berth:auto-scaling-group":"asg"}}`,
			"subject=prod/g"},
		{writer, awsjson.OwnTarget + "PutClusterConfiguration", `{"cluster":"prod","configuration":{}}`,
			"subject=prod"},
		{writer, "DeleteService", `{"cluster":"prod","service":"none"}`, ""},
		{reader, "ListServices", `{"cluster":"prod"}`, ""},
	} {
		log.Reset()
		_, answer := request(t, f, c.principal, c.operation, c.body)
		lines := strings.Count(log.String(), "changed through the API")
		name := strings.TrimPrefix(strings.TrimPrefix(c.operation, awsjson.OwnTarget), eksPrefix)
		switch {
		case c.subject == "" && lines != 0:
			t.Errorf("%s, which changed nothing, is logged: %s", name, log.String())
		case c.subject != "" && (lines != 1 || !strings.Contains(log.String(),
			"operation="+name+" principal="+c.principal+" "+c.subject+"\n")):
			t.Errorf("%s (%s): the log is %s, want one line with %s and %s", name, answer, log.String(), c.principal,
				c.subject)
		}
	}
}

// upstreamDown is an ECS that does not answer.
type upstreamDown struct{}

func (upstreamDown) Forward(context.Context, string, []byte) (int, []byte, error) {
	return 0, nil, errors.New("down")
}
