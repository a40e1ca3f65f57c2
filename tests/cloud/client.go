package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/auth"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"berth/shared/awsapi"
	"berth/tests/ministack"
)

// Client calls Berth's ECS API, as the account's root user. A call that fails is not repeated.
func (c *Cloud) Client() *ecs.Client {
	return ecs.New(ecs.Options{
		BaseEndpoint: &c.API, Region: ministack.Region, RetryMaxAttempts: 1, AuthSchemeResolver: lambdaSigner{}, HTTPClient: awsapi.HTTP{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return rootUser, nil }),
	})
}

// lambdaSigner signs for the service lambda, as function URLs want it.
type lambdaSigner struct{}

func (lambdaSigner) ResolveAuthSchemes(context.Context, *ecs.AuthResolverParameters) ([]*auth.Option, error) {
	o := &auth.Option{SchemeID: auth.SchemeIDSigV4}
	var p smithy.Properties
	smithyhttp.SetSigV4SigningName(&p, "lambda")
	smithyhttp.SetSigV4SigningRegion(&p, ministack.Region)
	o.SignerProperties = p
	return []*auth.Option{o}, nil
}

// CallECS calls an operation of Berth's ECS API with a body of its protocol.
func (c *Cloud) CallECS(ctx context.Context, operation, body string) (answer []byte, err error) {
	return c.callAPI(ctx, "AmazonEC2ContainerServiceV20141113."+operation, body)
}

// CallBerth calls an operation of Berth's own, beside ECS's.
func (c *Cloud) CallBerth(ctx context.Context, operation, body string) (answer []byte, err error) {
	return c.callAPI(ctx, "Berth_20261121."+operation, body)
}

func (c *Cloud) callAPI(ctx context.Context, target, body string) (answer []byte, err error) {
	answer, err = caller{endpoint: c.API}.sendRequest(ctx, request{
		service: "lambda", method: http.MethodPost, body: []byte(body), contentType: "application/x-amz-json-1.1", target: target,
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", target, err)
	}
	return answer, err
}

// CallEKS calls Berth's EKS API, and gives the HTTP status and the answer.
func (c *Cloud) CallEKS(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	in := request{service: "lambda", method: method, path: strings.TrimPrefix(path, "/"), body: []byte(body), contentType: "application/json"}
	r, err := (caller{endpoint: c.API}).newRequest(ctx, in)
	if err != nil {
		return 0, nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// AddInstances has n machines of an EC2 type join a cluster of the fleet, their zones taken in turn.
func (c *Cloud) AddInstances(cluster string, n int, machine string, zones []string) error {
	return c.callControl(http.MethodPost, "/fleet/instances", map[string]any{"cluster": cluster, "count": n, "type": machine, "zones": zones})
}

// CrashTask has a task exit by itself; the id is ECS's.
func (c *Cloud) CrashTask(id string, exitCode int) error {
	return c.callControl(http.MethodPost, "/fleet/tasks/"+id+"/exit", map[string]any{"exitCode": exitCode})
}

// FailTarget has a task fail the checks of its target groups, for a reason; pass them again where that is empty.
func (c *Cloud) FailTarget(id, reason string) error {
	return c.callControl(http.MethodPost, "/fleet/tasks/"+id+"/target", map[string]any{"reason": reason})
}

// KillInstance terminates a machine.
func (c *Cloud) KillInstance(id string) error {
	return c.callControl(http.MethodDelete, "/fleet/instances/"+id, nil)
}

// DisconnectAgent cuts a machine's agent off from ECS.
func (c *Cloud) DisconnectAgent(id string) error {
	return c.callControl(http.MethodPost, "/fleet/instances/"+id+"/disconnect", nil)
}

// ReconnectAgent brings an agent back.
func (c *Cloud) ReconnectAgent(id string) error {
	return c.callControl(http.MethodPost, "/fleet/instances/"+id+"/reconnect", nil)
}

func (c *Cloud) callControl(method, path string, in any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, c.SimulatedAWS+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, answer)
	}
	return err
}

// KillFunctions ends the functions that run now, in the middle of what they do, and says how many there were.
func (c *Cloud) KillFunctions() int { return c.emulator.KillFunctions() }

// SimulatedECS is the fleet itself, as only Berth's functions call it.
func (c *Cloud) SimulatedECS() *ecs.Client {
	return ecs.New(ecs.Options{
		BaseEndpoint: &c.SimulatedAWS, Region: ministack.Region, HTTPClient: awsapi.HTTP{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return rootUser, nil }),
	})
}

// RowCount is how many rows the table has of a cluster.
func (c *Cloud) RowCount(ctx context.Context, cluster string) (int, error) {
	body, err := json.Marshal(map[string]any{
		"TableName": c.Resources["Table"], "Select": "COUNT", "ConsistentRead": true, "KeyConditionExpression": "pk = :c",
		"ExpressionAttributeValues": map[string]any{":c": map[string]string{"S": cluster}},
	})
	if err != nil {
		return 0, err
	}
	answer, err := caller{endpoint: c.Endpoint}.sendRequest(ctx, request{
		service: "dynamodb", method: http.MethodPost, path: "/", body: body, contentType: "application/x-amz-json-1.0",
		target: "DynamoDB_20120810.Query",
	})
	var out struct{ Count int }
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	return out.Count, err
}
