package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"berth/tests/ministack"
)

// A roleBook has the deployed policies of the functions' roles. The emulator enforces them for its
// own services. The simulated AWS enforces none, so the tap does it there.
type roleBook struct {
	mu       sync.Mutex
	callers  map[string]string // functions by access key
	policies map[string]policy // by function
}

func (b *roleBook) setCallers(callers map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callers = callers
}

func (b *roleBook) setPolicy(function, document string) error {
	var p policy
	if err := json.Unmarshal([]byte(document), &p); err != nil {
		return fmt.Errorf("reading the policy of %s: %w", function, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.policies == nil {
		b.policies = map[string]policy{}
	}
	b.policies[function] = p
	return nil
}

// policyOf returns the function that an access key belongs to and its policy. Both are empty for
// other callers, and before the stack is deployed.
func (b *roleBook) policyOf(accessKey string) (function string, p policy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	function = b.callers[accessKey]
	return function, b.policies[function]
}

// Caller returns the function (its folder's name) that an access key belongs to, or "" if it
// belongs to none.
func (c *Cloud) Caller(accessKey string) string {
	function, _ := c.roles.policyOf(accessKey)
	return function
}

// Authorize decides as IAM would whether a function's role allows a call to the simulated AWS. It
// returns why not, or "". It judges actions of every service, and resources and conditions of
// Amazon EC2 Auto Scaling, where Berth's own groups differ from others by a tag.
func (c *Cloud) Authorize(ctx context.Context, call Call) string {
	function, p := c.roles.policyOf(call.AccessKey)
	if function == "" || p.Statement == nil {
		return ""
	}
	target, err := c.targetOf(ctx, call)
	if err != nil {
		return err.Error()
	}
	for _, action := range call.Actions() {
		if !slices.ContainsFunc(p.Statement, func(s statement) bool { return s.allows(action, target) }) {
			return fmt.Sprintf("the role of %s does not allow %s on %q with tags %v", function, action, target.arn,
				target.tags)
		}
	}
	return ""
}

// refuseUnauthorized answers a call to the simulated AWS that the caller's role does not allow.
func (c *Cloud) refuseUnauthorized(call Call) (status int, body string) {
	why := c.Authorize(context.Background(), call)
	if why == "" {
		return 0, ""
	}
	if call.Target == "" {
		return http.StatusForbidden, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>" + why +
			"</Message></Error></ErrorResponse>"
	}
	answer, _ := json.Marshal(map[string]string{"__type": "AccessDeniedException", "message": why})
	return http.StatusBadRequest, string(answer)
}

// A target is what a call changes, as IAM sees it. The ARN is empty unless it is an Auto Scaling
// group.
type target struct {
	arn     string
	tags    map[string]string
	tagKeys []string // that the call sets
	setTags map[string]string
}

// targetOf finds the Auto Scaling group that a call changes.
func (c *Cloud) targetOf(ctx context.Context, call Call) (target, error) {
	if call.Service != "autoscaling" || strings.HasPrefix(call.Operation, "Describe") {
		return target{}, nil
	}
	form, err := url.ParseQuery(string(call.Request))
	if err != nil {
		return target{}, fmt.Errorf("reading the form of %s: %w", call.Operation, err)
	}
	out := target{setTags: map[string]string{}}
	name := form.Get("AutoScalingGroupName")
	for n := 1; form.Has(fmt.Sprintf("Tags.member.%d.Key", n)); n++ {
		name = form.Get(fmt.Sprintf("Tags.member.%d.ResourceId", n))
		key := form.Get(fmt.Sprintf("Tags.member.%d.Key", n))
		out.tagKeys = append(out.tagKeys, key)
		out.setTags[key] = form.Get(fmt.Sprintf("Tags.member.%d.Value", n))
	}
	var got struct {
		Groups []struct {
			Name string `xml:"AutoScalingGroupName"`
			Tags []struct {
				Key, Value string
			} `xml:"Tags>member"`
			Instances []struct {
				ID string `xml:"InstanceId"`
			} `xml:"Instances>member"`
		} `xml:"DescribeAutoScalingGroupsResult>AutoScalingGroups>member"`
	}
	err = caller{endpoint: c.SimulatedAWS}.callQuery(ctx, queryAPI{"autoscaling", "2011-01-01"},
		"DescribeAutoScalingGroups", map[string]string{"MaxRecords": "100"}, &got)
	if err != nil {
		return target{}, err
	}
	for _, g := range got.Groups {
		holds := false
		for _, i := range g.Instances {
			holds = holds || i.ID == form.Get("InstanceId")
		}
		if g.Name != name && !holds {
			continue
		}
		out.tags = map[string]string{}
		for _, t := range g.Tags {
			out.tags[t.Key] = t.Value
		}
		name = g.Name
	}
	out.arn = fmt.Sprintf("arn:aws:autoscaling:%s:%s:autoScalingGroup:id:autoScalingGroupName/%s", ministack.Region,
		ministack.Account, name)
	return out, nil
}

// allows reports whether a statement allows an action on the target. Only template.yaml's policies
// are read, so no action has a wildcard (tests/template).
func (s statement) allows(action string, on target) bool {
	if s.Effect != "Allow" || !slices.Contains(textsOf(s.Action), action) {
		return false
	}
	if on.arn == "" {
		return true
	}
	covers := func(pattern string) bool { return matchesPattern(pattern, on.arn) }
	return slices.ContainsFunc(textsOf(s.Resource), covers) && s.meets(on)
}

// meets reports whether the target meets every condition of the statement. A condition of a kind
// that template.yaml does not use is never met.
func (s statement) meets(on target) bool {
	var conditions map[string]map[string]json.RawMessage
	if s.Condition != nil && json.Unmarshal(s.Condition, &conditions) != nil {
		return false
	}
	for operator, keys := range conditions {
		for key, want := range keys {
			tag, isTag := strings.CutPrefix(key, "aws:ResourceTag/")
			given, isGiven := strings.CutPrefix(key, "aws:RequestTag/")
			met := false
			switch {
			case operator == "StringEquals" && isGiven:
				value, has := on.setTags[given]
				met = has && slices.Contains(textsOf(want), value)
			case operator == "StringEquals" && isTag:
				value, has := on.tags[tag]
				met = has && slices.Contains(textsOf(want), value)
			case operator == "ForAllValues:StringEquals" && key == "aws:TagKeys":
				met = !slices.ContainsFunc(on.tagKeys,
					func(k string) bool { return !slices.Contains(textsOf(want), k) })
			case operator == "Null" && key == "aws:TagKeys":
				met = slices.Contains(textsOf(want), fmt.Sprint(len(on.tagKeys) == 0))
			}
			if !met {
				return false
			}
		}
	}
	return true
}

// textsOf returns the text, or the texts of the list, that a member of a policy is.
func textsOf(member json.RawMessage) (texts []string) {
	var one string
	if json.Unmarshal(member, &one) == nil {
		return []string{one}
	}
	_ = json.Unmarshal(member, &texts)
	return texts
}

// matchesPattern reports whether a text is the pattern, in which * stands for any text.
func matchesPattern(pattern, text string) bool {
	first, rest, found := strings.Cut(pattern, "*")
	text, begins := strings.CutPrefix(text, first)
	if !found || !begins {
		return begins && text == ""
	}
	for i := range len(text) + 1 {
		if matchesPattern(rest, text[i:]) {
			return true
		}
	}
	return false
}
