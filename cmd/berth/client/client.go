package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"berth/shared/awsapi/autoscaling"
	"berth/shared/awsapi/launchtemplate"
	"berth/shared/cluster"
)

// Endpoint is the flag of every command that talks to a running Berth.
type Endpoint struct {
	// On AWS it is the function URL.
	Endpoint string `env:"AWS_ENDPOINT_URL_ECS,AWS_ENDPOINT_URL" default:"http://127.0.0.1:5252" help:"The API."`
}

// Client calls one endpoint.
type Client struct {
	endpoint string
	http     *http.Client
	// aws has the credentials to sign with. It is nil if the endpoint is on this machine.
	aws *aws.Config
}

const (
	ecsTarget   = "AmazonEC2ContainerServiceV20141113."
	ownTarget   = "Berth_20261121."
	contentType = "application/x-amz-json-1.1"
	timeout     = 60 * time.Second
	maxAnswer   = 64 << 20
)

// New returns a client of the endpoint. Unless the endpoint is on this machine, it needs AWS
// credentials, which it looks for as the SDK does.
func New(ctx context.Context, e Endpoint) (*Client, error) {
	u, err := url.Parse(e.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--endpoint is %q, expected a URL such as http://127.0.0.1:5252", e.Endpoint)
	}
	c := &Client{endpoint: strings.TrimSuffix(e.Endpoint, "/") + "/", http: &http.Client{Timeout: timeout}}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return c, nil
	}
	conf, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding AWS credentials: %w", err)
	}
	c.aws = &conf
	return c, nil
}

// CallECS calls an operation of the ECS API.
func (c *Client) CallECS(ctx context.Context, op string, in, out any) error {
	return c.sendRequest(ctx, call{op: op, target: ecsTarget + op, in: in, out: out})
}

// CallBerth calls one of Berth's own operations.
func (c *Client) CallBerth(ctx context.Context, op string, in, out any) error {
	return c.sendRequest(ctx, call{op: op, target: ownTarget + op, in: in, out: out})
}

// CallEKS calls an operation of the EKS API: a POST to the path, such as clusters/prod/node-groups.
func (c *Client) CallEKS(ctx context.Context, op, path string, in, out any) error {
	return c.sendRequest(ctx, call{op: op, path: path, in: in, out: out})
}

// AutoScalingGroups returns those of the named groups that exist, from Amazon EC2 Auto Scaling
// itself. For an API on this machine that is AWS_ENDPOINT_URL_AUTO_SCALING, AWS_ENDPOINT_URL or the
// API's own endpoint; otherwise it is the account's.
func (c *Client) AutoScalingGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	if len(names) == 0 {
		return nil, nil
	}
	conf, err := c.configWithEndpoint("AWS_ENDPOINT_URL_AUTO_SCALING")
	if err != nil {
		return nil, err
	}
	groups, err := autoscaling.NewGroups(conf).DescribeGroups(ctx, names)
	return groups, c.awsError("DescribeAutoScalingGroups", err)
}

// LaunchTemplate returns a version of a launch template, $Default if the reference names none, from
// Amazon EC2 itself. The endpoint is found as for groups, with AWS_ENDPOINT_URL_EC2.
func (c *Client) LaunchTemplate(ctx context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	conf, err := c.configWithEndpoint("AWS_ENDPOINT_URL_EC2")
	if err != nil {
		return nil, err
	}
	lt, err := launchtemplate.NewTemplates(conf).LaunchTemplate(ctx, ref)
	return lt, c.awsError("DescribeLaunchTemplateVersions", err)
}

// configWithEndpoint returns how another service of AWS is called. Locally, the endpoint comes from
// the variable, from AWS_ENDPOINT_URL, or is the API's own.
func (c *Client) configWithEndpoint(variable string) (aws.Config, error) {
	// The simulated AWS does not check signatures, but they name the service that is called.
	anybody := credentials.NewStaticCredentialsProvider("any", "any", "")
	conf := aws.Config{Region: "us-east-1", Credentials: anybody, HTTPClient: c.http, BaseEndpoint: &c.endpoint}
	if c.aws != nil {
		conf = c.aws.Copy()
		u, err := url.Parse(c.endpoint)
		if err != nil {
			return conf, err
		}
		conf.Region = cmp.Or(conf.Region, regionOf(u.Hostname()))
	} else if other := cmp.Or(os.Getenv(variable), os.Getenv("AWS_ENDPOINT_URL")); other != "" {
		conf.BaseEndpoint = &other
	}
	return conf, nil
}

// call is one request. target names the operation in a JSON protocol, path in a REST protocol.
type call struct {
	op, target, path string
	in, out          any
}

// sendRequest sends a request and decodes the answer into of.out, unless that is nil. Errors begin
// with the operation's name.
func (c *Client) sendRequest(ctx context.Context, of call) error {
	op := of.op
	body, err := json.Marshal(of.in)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint+of.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if of.target != "" {
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("X-Amz-Target", of.target)
	}
	if err := c.signRequest(ctx, req, body); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachableError(op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: reading the answer: %w", op, err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusalError(op, resp, answer)
	}
	if of.out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, of.out); err != nil {
		return fmt.Errorf("%s: the answer cannot be read: %w", op, err)
	}
	return nil
}

// awsError returns an error of another service as it is if the service itself gave it.
func (c *Client) awsError(op string, err error) error {
	if err == nil || errors.As(err, new(*cluster.Error)) {
		return err
	}
	return c.unreachableError(op, err)
}

// unreachableError adds what to do if nobody listens at the endpoint.
func (c *Client) unreachableError(op string, err error) error {
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "dial" {
		return fmt.Errorf("%s: nobody answers at %s (%w); start `berth up`, or give another --endpoint", op, c.endpoint,
			refused.Err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// refusalError returns an error of the API as a [cluster.Error], with the operation's name.
func refusalError(op string, resp *http.Response, answer []byte) error {
	var e struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	err := json.Unmarshal(answer, &e)
	if e.Type = cmp.Or(e.Type, resp.Header.Get("X-Amzn-ErrorType")); err != nil || e.Type == "" {
		return fmt.Errorf("%s: status %d: %.200q", op, resp.StatusCode, answer)
	}
	return fmt.Errorf("%s: %w", op, cluster.Errorf(cluster.Code(e.Type[strings.LastIndexByte(e.Type, '#')+1:]), "%s",
		e.Message))
}

// signRequest signs a call that leaves this machine. A function URL is checked by Lambda, so the
// signature is for Lambda; any other endpoint gets one for ECS.
func (c *Client) signRequest(ctx context.Context, req *http.Request, body []byte) error {
	if c.aws == nil {
		return nil
	}
	if c.aws.Credentials == nil {
		return errors.New("no AWS credentials")
	}
	credentials, err := c.aws.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("finding AWS credentials: %w", err)
	}
	service, region := "ecs", cmp.Or(c.aws.Region, os.Getenv("AWS_REGION"))
	if host := req.URL.Hostname(); strings.Contains(host, ".lambda-url.") {
		service = "lambda"
		region = cmp.Or(regionOf(host), region)
	}
	if region == "" {
		return errors.New("no AWS Region: set AWS_REGION")
	}
	sum := sha256.Sum256(body)
	return v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), service, region, time.Now())
}

// regionOf returns the Region in a function URL's host, ID.lambda-url.REGION.on.aws, or nothing.
func regionOf(host string) string {
	_, rest, _ := strings.Cut(host, ".lambda-url.")
	region, _, _ := strings.Cut(rest, ".")
	return region
}
