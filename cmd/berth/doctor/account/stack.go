package account

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"berth/cmd/berth/client"
	"berth/cmd/berth/doctor"
	"berth/shared/wire/transport"
)

// maxPages bounds lists: a stack of Berth has one page or two of resources.
const maxPages = 100

// readStack reads the stack with its resources.
func (r *reader) readStack(ctx context.Context) (*doctor.Stack, error) {
	var out struct {
		Stacks []struct {
			ID     string `xml:"StackId"`
			Status string `xml:"StackStatus"`
			Reason string `xml:"StackStatusReason"`

			Parameters []struct {
				Key   string `xml:"ParameterKey"`
				Value string `xml:"ParameterValue"`
			} `xml:"Parameters>member"`
			Outputs []struct {
				Key   string `xml:"OutputKey"`
				Value string `xml:"OutputValue"`
			} `xml:"Outputs>member"`
		} `xml:"DescribeStacksResult>Stacks>member"`
	}
	err := r.callForm(ctx, cloudFormation, "DescribeStacks", map[string]string{"StackName": r.options.Stack}, &out)
	var denied *doctor.Denied
	switch {
	case errors.As(err, &denied):
		return nil,
			fmt.Errorf("--stack %s: these credentials may not read it: allow %s (berth doctor --help lists all "+
				"that it needs)", r.options.Stack, denied.Action)
	case err != nil && strings.Contains(err.Error(), "does not exist"):
		return nil, fmt.Errorf("--stack %s: there is no such stack in %s in the account of these credentials; "+
			"are --region and --profile right?", r.options.Stack, r.options.AWS.Region())
	case err != nil:
		return nil, fmt.Errorf("--stack %s: %w", r.options.Stack, err)
	case len(out.Stacks) != 1:
		return nil, fmt.Errorf("--stack %s: CloudFormation names %d stacks, expected 1", r.options.Stack,
			len(out.Stacks))
	}
	got := out.Stacks[0]
	s := &doctor.Stack{Name: r.options.Stack, ID: got.ID, Status: got.Status, Reason: got.Reason,
		Parameters: map[string]string{}, Outputs: map[string]string{}, Resources: map[string]doctor.Resource{}}
	for _, p := range got.Parameters {
		s.Parameters[p.Key] = p.Value
	}
	for _, o := range got.Outputs {
		s.Outputs[o.Key] = o.Value
	}
	if err := r.readResources(ctx, s); err != nil {
		return nil, fmt.Errorf("--stack %s: its resources: %w", r.options.Stack, err)
	}
	return s, nil
}

// readResources reads the stack's resources. Without them nothing else can be found.
func (r *reader) readResources(ctx context.Context, s *doctor.Stack) error {
	in := map[string]string{"StackName": r.options.Stack}
	for range maxPages {
		var out struct {
			Resources []struct {
				Logical  string `xml:"LogicalResourceId"`
				Physical string `xml:"PhysicalResourceId"`
				Type     string `xml:"ResourceType"`
				Status   string `xml:"ResourceStatus"`
				Reason   string `xml:"ResourceStatusReason"`
			} `xml:"ListStackResourcesResult>StackResourceSummaries>member"`
			Next string `xml:"ListStackResourcesResult>NextToken"`
		}
		if err := r.callForm(ctx, cloudFormation, "ListStackResources", in, &out); err != nil {
			return err
		}
		for _, o := range out.Resources {
			s.Resources[o.Logical] = doctor.Resource{Type: o.Type, ID: o.Physical, Status: o.Status, Reason: o.Reason}
		}
		if in["NextToken"] = out.Next; out.Next == "" {
			return nil
		}
	}
	return fmt.Errorf("more than %d pages", maxPages)
}

// findAPI notes where Berth's API is. An emulator of AWS serves function URLs at its own address,
// by the Host header.
func (r *reader) findAPI(f *doctor.Facts) {
	r.api = client.Call{Service: client.Service{Signing: "lambda", Host: "the function URL"}, ContentType: jsonOne,
		URL: f.Stack.Outputs["ApiUrl"]}
	u, err := url.Parse(r.api.URL)
	if err != nil {
		return
	}
	r.api.FunctionHost = u.Host
	base, err := url.Parse(r.options.AWS.EndpointOf(cloudFormation.Service))
	if err == nil && transport.IsLoopback(base.Host) {
		r.api.URL = base.Scheme + "://" + base.Host + "/"
	}
}
