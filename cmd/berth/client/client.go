package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"berth/shared/awsapi/autoscaling"
	"berth/shared/cluster"
)

// Client calls one target.
type Client struct {
	target *Target
	http   *http.Client
}

const (
	ecsTarget   = "AmazonEC2ContainerServiceV20141113."
	ownTarget   = "Berth_20261121."
	contentType = "application/x-amz-json-1.1"
	timeout     = 60 * time.Second
	maxAnswer   = 64 << 20
)

// New returns a client of the endpoint. Without AWS credentials it can call only an API on this
// machine.
func New(ctx context.Context, e Endpoint) (*Client, error) {
	t, err := FindTarget(ctx, e)
	if err != nil {
		return nil, err
	}
	return &Client{target: t,
		http: &http.Client{Transport: t.Transport(), Timeout: timeout, CheckRedirect: refuseRedirect}}, nil
}

// refuseRedirect lets an answer that leads elsewhere be the answer: the signature holds for one
// host.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

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
	groups, err := autoscaling.NewGroups(c.target.ConfigFor("AWS_ENDPOINT_URL_AUTO_SCALING")).DescribeGroups(ctx, names)
	return groups, c.awsError("DescribeAutoScalingGroups", err)
}

// FailedLaunches returns the launches of a group that failed since a time, the newest first.
func (c *Client) FailedLaunches(ctx context.Context, group string, since time.Time) ([]cluster.FailedLaunch, error) {
	out, err := autoscaling.NewGroups(c.target.ConfigFor("AWS_ENDPOINT_URL_AUTO_SCALING")).FailedLaunches(ctx, group,
		since)
	return out, c.awsError("DescribeScalingActivities", err)
}

// call is one request. target names the operation in a JSON protocol, path in a REST protocol.
type call struct {
	op, target, path string
	in, out          any
}

// Download calls read with what the path has, which must be of the media type. The answer may take as long
// as ctx allows.
func (c *Client) Download(ctx context.Context, op, path, mediaType string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.target.URL.String()+path, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	req.Host = c.target.Host
	// As the API's check of signatures sees it, a request with a path is for EKS (access.ServiceOf).
	if err := c.target.SignRequest(ctx, req, nil, "eks"); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	unhurried := *c.http
	unhurried.Timeout = 0
	resp, err := unhurried.Do(req)
	if err != nil {
		return c.unreachableError(op, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what there is of the reason
		return c.refusalError(op, resp, answer)
	}
	if is := resp.Header.Get("Content-Type"); is != mediaType {
		return fmt.Errorf("%s: %s answers with %q, expected %s of Berth's API", op, c.target.URL, is, mediaType)
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("%s: reading the answer: %w", op, err)
	}
	return nil
}

// sendRequest sends a request and decodes the answer into of.out, unless that is nil. Errors begin
// with the operation's name.
func (c *Client) sendRequest(ctx context.Context, of call) error {
	op := of.op
	body, err := json.Marshal(of.in)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target.URL.String()+of.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	req.Host = c.target.Host
	req.Header.Set("Content-Type", "application/json")
	if of.target != "" {
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("X-Amz-Target", of.target)
	}
	service := "ecs"
	if of.path != "" {
		service = "eks"
	}
	if err := c.target.SignRequest(ctx, req, body, service); err != nil {
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
		return c.nameMissing(ctx, body, c.refusalError(op, resp, answer))
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

// unreachableError adds what to do if no server listens at the endpoint.
func (c *Client) unreachableError(op string, err error) error {
	var refused *net.OpError
	if errors.As(err, &refused) && refused.Op == "dial" {
		return fmt.Errorf("%s: no server answers at %s (%w); start `berth up`, or give another --endpoint", op,
			c.target.URL, refused.Err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// refusalError returns an error of the API as a [cluster.Error], with the operation's name.
func (c *Client) refusalError(op string, resp *http.Response, answer []byte) error {
	if c.target.IsFunctionURL && !IsFromBerth(resp.Header) {
		code, message := c.target.ExplainLambda(resp.StatusCode, resp.Header, answer)
		return fmt.Errorf("%s: %w", op, cluster.Errorf(cluster.Code(code), "%s", message))
	}
	var e struct {
		Type    string `json:"__type"` // of the ECS API
		Code    string `json:"code"`   // of the EKS API
		Message string `json:"message"`
	}
	err := json.Unmarshal(answer, &e)
	if e.Type = cmp.Or(e.Type, e.Code, resp.Header.Get("X-Amzn-ErrorType")); err != nil || e.Type == "" {
		return fmt.Errorf("%s: status %d: %.200q", op, resp.StatusCode, answer)
	}
	code := cluster.Code(e.Type[strings.LastIndexByte(e.Type, '#')+1:])
	if code == cluster.CodeMissingToken && c.target.withoutCredentials != nil {
		return fmt.Errorf("%s: %w; %w", op, cluster.Errorf(code, "%s", e.Message), c.target.withoutCredentials)
	}
	return fmt.Errorf("%s: %w", op, cluster.Errorf(code, "%s", e.Message))
}
