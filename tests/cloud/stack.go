package cloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// StackName is the name of the installation's stack.
const StackName = "berth"

// deployStack creates or updates the stack from the packed template, waits for the end and returns
// the stack's outputs. It uploads the template first, as `sam deploy` does, because it is too long
// for a request.
func (c caller) deployStack(
	ctx context.Context, action, template string, parameters map[string]string,
) (map[string]string, error) {
	path := "/" + bucket + "/" + StackName + ".yaml"
	if err := c.putObject(ctx, path, []byte(template)); err != nil {
		return nil, err
	}
	in := map[string]string{
		"StackName": StackName, "TemplateURL": c.endpoint + path, "Capabilities.member.1": "CAPABILITY_IAM",
		"Capabilities.member.2": "CAPABILITY_AUTO_EXPAND",
	}
	for i, name := range slices.Sorted(maps.Keys(parameters)) {
		at := "Parameters.member." + strconv.Itoa(i+1)
		in[at+".ParameterKey"], in[at+".ParameterValue"] = name, parameters[name]
	}
	if err := c.callQuery(ctx, cloudFormation, action, in, nil); err != nil {
		return nil, err
	}
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		s, err := c.describeStack(ctx)
		switch {
		case err != nil:
			return nil, err
		case s.Status == "CREATE_COMPLETE" || s.Status == "UPDATE_COMPLETE":
			outputs := map[string]string{}
			for _, o := range s.Outputs {
				outputs[o.Key] = o.Value
			}
			return outputs, nil
		case !strings.HasSuffix(s.Status, "IN_PROGRESS"):
			return nil, fmt.Errorf("deploying template.yaml: the stack is %s: %s%s", s.Status, s.Reason,
				c.failedResources(ctx))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

type stack struct {
	Status  string `xml:"StackStatus"`
	Reason  string `xml:"StackStatusReason"`
	Outputs []struct {
		Key   string `xml:"OutputKey"`
		Value string `xml:"OutputValue"`
	} `xml:"Outputs>member"`
}

func (c caller) describeStack(ctx context.Context) (stack, error) {
	var out struct {
		Stacks []stack `xml:"DescribeStacksResult>Stacks>member"`
	}
	err := c.callQuery(ctx, cloudFormation, "DescribeStacks", map[string]string{"StackName": StackName}, &out)
	if err == nil && len(out.Stacks) != 1 {
		err = fmt.Errorf("there are %d stacks called %s", len(out.Stacks), StackName)
	}
	if err != nil {
		return stack{}, err
	}
	return out.Stacks[0], nil
}

// failedResources returns what the stack's events say about resources that could not be created.
func (c caller) failedResources(ctx context.Context) string {
	var out struct {
		Events []struct {
			ID     string `xml:"LogicalResourceId"`
			Status string `xml:"ResourceStatus"`
			Reason string `xml:"ResourceStatusReason"`
		} `xml:"DescribeStackEventsResult>StackEvents>member"`
	}
	_ = c.callQuery(ctx, cloudFormation, "DescribeStackEvents", map[string]string{"StackName": StackName}, &out)
	var text strings.Builder
	for _, e := range out.Events {
		if strings.HasSuffix(e.Status, "FAILED") {
			fmt.Fprintf(&text, "\n%s: %s", e.ID, e.Reason)
		}
	}
	return text.String()
}

// resourceIDs returns the physical ids of the stack's resources by logical id.
func (c caller) resourceIDs(ctx context.Context) (map[string]string, error) {
	var out struct {
		Resources []struct {
			Logical  string `xml:"LogicalResourceId"`
			Physical string `xml:"PhysicalResourceId"`
		} `xml:"DescribeStackResourcesResult>StackResources>member"`
	}
	err := c.callQuery(ctx, cloudFormation, "DescribeStackResources", map[string]string{"StackName": StackName}, &out)
	ids := map[string]string{}
	for _, r := range out.Resources {
		ids[r.Logical] = r.Physical
	}
	return ids, err
}
