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

// Client returns a client of Berth's ECS API that calls as the account's root user. It does not
// repeat failed calls.
func (c *Cloud) Client() *ecs.Client { return c.ClientAs(rootUser) }

// ClientAs returns such a client with the credentials of a [Caller].
func (c *Cloud) ClientAs(as aws.Credentials) *ecs.Client {
	return ecs.New(ecs.Options{
		BaseEndpoint: &c.API, Region: ministack.Region, RetryMaxAttempts: 1, AuthSchemeResolver: lambdaSigner{},
		HTTPClient: awsapi.HTTP{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return as, nil
		}),
	})
}

// A lambdaSigner signs for the service lambda, as function URLs require.
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

// CallBerth calls one of Berth's own operations.
func (c *Cloud) CallBerth(ctx context.Context, operation, body string) (answer []byte, err error) {
	return c.callAPI(ctx, "Berth_20261121."+operation, body)
}

func (c *Cloud) callAPI(ctx context.Context, target, body string) (answer []byte, err error) {
	answer, err = caller{endpoint: c.API}.sendRequest(ctx, request{
		service: "lambda", method: http.MethodPost, body: []byte(body), contentType: "application/x-amz-json-1.1",
		target: target,
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", target, err)
	}
	return answer, err
}

// CallEKS calls Berth's EKS API and returns the HTTP status and the answer.
func (c *Cloud) CallEKS(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	status, text, err := c.CallAs(ctx, aws.Credentials{}, Request{Method: method, Path: path, Body: body})
	return status, []byte(text), err
}

// A Request is for Berth's API: with a path for the EKS API, with a target, which names the
// operation, for the ECS API and Berth's own.
type Request struct{ Method, Path, Target, Body string }

// CallAs sends a request that is signed with the credentials, and returns the HTTP status and the
// answer.
func (c *Cloud) CallAs(ctx context.Context, as aws.Credentials, in Request) (status int, answer string, err error) {
	contentType := "application/x-amz-json-1.1"
	if in.Path != "" {
		contentType = "application/json"
	}
	r, err := (caller{endpoint: c.API, as: as}).newRequest(ctx, request{service: "lambda", method: in.Method,
		path: strings.TrimPrefix(in.Path, "/"), body: []byte(in.Body), contentType: contentType, target: in.Target})
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// AddInstances adds n machines of an EC2 type to a cluster of the simulated AWS, in the zones by
// turns.
func (c *Cloud) AddInstances(cluster string, n int, machine string, zones []string) error {
	return c.callControl(http.MethodPost, "/fleet/instances",
		map[string]any{"cluster": cluster, "count": n, "type": machine, "zones": zones})
}

// CrashTask lets a task exit by itself. The id is ECS's.
func (c *Cloud) CrashTask(id string, exitCode int) error {
	return c.callControl(http.MethodPost, "/fleet/tasks/"+id+"/exit", map[string]any{"exitCode": exitCode})
}

// FailTarget lets a task fail the checks of its target groups for a reason, or pass them again if
// the reason is empty.
func (c *Cloud) FailTarget(id, reason string) error {
	return c.callControl(http.MethodPost, "/fleet/tasks/"+id+"/target", map[string]any{"reason": reason})
}

// KillInstance terminates a machine.
func (c *Cloud) KillInstance(id string) error {
	return c.callControl(http.MethodDelete, "/fleet/instances/"+id, nil)
}

// SetQuota sets a quota of the simulated account, which may be less than what is used.
func (c *Cloud) SetQuota(service, code string, value float64) error {
	return c.callControl(http.MethodPost, "/fleet/quotas/"+service+"/"+code, map[string]any{"value": value})
}

// DisconnectAgent disconnects a machine's agent from ECS.
func (c *Cloud) DisconnectAgent(id string) error {
	return c.callControl(http.MethodPost, "/fleet/instances/"+id+"/disconnect", nil)
}

// ReconnectAgent connects the agent again.
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

// KillFunctions kills the functions that run now, in the middle of their work, and returns their
// number.
func (c *Cloud) KillFunctions() int { return c.emulator.KillFunctions() }

// SimulatedECS returns a client of the simulated ECS, which otherwise only Berth's functions call.
func (c *Cloud) SimulatedECS() *ecs.Client {
	return ecs.New(ecs.Options{
		BaseEndpoint: &c.SimulatedAWS, Region: ministack.Region, HTTPClient: awsapi.HTTP{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return rootUser,
				nil
		}),
	})
}

// RowCount returns how many rows of a cluster the table has.
func (c *Cloud) RowCount(ctx context.Context, cluster string) (int, error) {
	body, err := json.Marshal(map[string]any{
		"TableName": c.Resources["Table"], "Select": "COUNT", "ConsistentRead": true,
		"KeyConditionExpression":    "pk = :c",
		"ExpressionAttributeValues": map[string]any{":c": map[string]string{"S": cluster}},
	})
	if err != nil {
		return 0, err
	}
	answer, err := c.CallTable(ctx, "Query", string(body))
	var out struct{ Count int }
	if err == nil {
		err = json.Unmarshal(answer, &out)
	}
	return out.Count, err
}
