package cloud

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"berth/tests/ministack"
)

// RootARN is the principal of the account's root user, whom [Cloud.Client] and the other methods
// call as.
const RootARN = "arn:aws:iam::" + ministack.Account + ":root"

// A Caller is an IAM user of the emulator, who calls Berth through the function URL.
type Caller string

// The callers, by their rights. All but the stranger have the stack's CallerPolicy, and so may
// read.
const (
	Reader   Caller = "reader"
	Writer   Caller = "writer"   // is one of WriterArns
	Manager  Caller = "manager"  // is one of NodeGroupManagerArns
	Operator Caller = "operator" // is one of both
	Reporter Caller = "reporter" // is one of LoadReporterArns
	Stranger Caller = "stranger" // may not invoke the function URL
)

// ARN returns the caller's principal.
func (u Caller) ARN() string { return "arn:aws:iam::" + ministack.Account + ":user/" + string(u) }

// CreateCaller creates the IAM user with a new access key. It may call Berth, find its stack, and
// call the further actions on all resources. A user must be created only once.
func (c *Cloud) CreateCaller(ctx context.Context, u Caller, actions ...string) (aws.Credentials, error) {
	root := caller{endpoint: c.Endpoint}
	name := map[string]string{"UserName": string(u)}
	if err := root.callQuery(ctx, iam, "CreateUser", name, nil); err != nil {
		return aws.Credentials{}, err
	}
	if u != Stranger {
		in := map[string]string{"UserName": string(u), "PolicyArn": c.Resources["CallerPolicy"]}
		if err := root.callQuery(ctx, iam, "AttachUserPolicy", in, nil); err != nil {
			return aws.Credentials{}, err
		}
	}
	document, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": map[string]any{
		"Effect": "Allow", "Resource": "*", "Action": append([]string{"cloudformation:DescribeStacks"}, actions...),
	}})
	if err != nil {
		return aws.Credentials{}, err
	}
	in := map[string]string{"UserName": string(u), "PolicyName": "further", "PolicyDocument": string(document)}
	if err := root.callQuery(ctx, iam, "PutUserPolicy", in, nil); err != nil {
		return aws.Credentials{}, err
	}
	var out struct {
		ID     string `xml:"CreateAccessKeyResult>AccessKey>AccessKeyId"`
		Secret string `xml:"CreateAccessKeyResult>AccessKey>SecretAccessKey"`
	}
	if err := root.callQuery(ctx, iam, "CreateAccessKey", name, &out); err != nil {
		return aws.Credentials{}, err
	}
	return aws.Credentials{AccessKeyID: out.ID, SecretAccessKey: out.Secret}, nil
}

// ClientEnvironment returns the variables, as NAME=value, with which a client finds the account and
// signs: the emulator, the simulated AWS beside it, and the credentials. They do not say where
// Berth's API is: `berth proxy --stack berth` finds it.
func (c *Cloud) ClientEnvironment(as aws.Credentials) []string {
	env := slices.DeleteFunc(FleetEndpoints(c.SimulatedAWS), func(v string) bool {
		return v == "AWS_ENDPOINT_URL_ECS="+c.SimulatedAWS
	})
	env = append(env, "AWS_ENDPOINT_URL="+c.Endpoint, "AWS_REGION="+ministack.Region,
		"AWS_DEFAULT_REGION="+ministack.Region, "AWS_ACCESS_KEY_ID="+as.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY="+as.SecretAccessKey)
	if as.SessionToken != "" {
		env = append(env, "AWS_SESSION_TOKEN="+as.SessionToken)
	}
	return env
}

// StatusSignedFor returns the HTTP status of a request to the function URL that the root user has
// signed for a service. Only "lambda" is right.
func (c *Cloud) StatusSignedFor(ctx context.Context, service string) (status int, err error) {
	r, err := (caller{endpoint: c.API}).newRequest(ctx, request{service: service, method: http.MethodPost,
		body: []byte("{}"), contentType: "application/x-amz-json-1.1",
		target: "AmazonEC2ContainerServiceV20141113.ListClusters"})
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
