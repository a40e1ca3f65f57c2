package client

import (
	"cmp"
	"context"
	"net/url"
	"time"

	"berth/shared/awsapi"
	"berth/shared/cluster"
)

var ec2 = Service{Signing: "ec2", Host: "ec2", Variable: "EC2"}

// LaunchTemplate returns a version of a launch template, $Default if the reference names none, from
// Amazon EC2 itself. The endpoint is found as for groups, with AWS_ENDPOINT_URL_EC2.
func (c *Client) LaunchTemplate(ctx context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error) {
	const operation = "DescribeLaunchTemplateVersions"
	form := url.Values{"Action": {operation}, "Version": {"2016-11-15"},
		"LaunchTemplateVersion.1": {cmp.Or(ref.Version, "$Default")}}
	if form.Set("LaunchTemplateId", ref.ID); ref.ID == "" { // EC2 refuses both
		form.Del("LaunchTemplateId")
		form.Set("LaunchTemplateName", ref.Name)
	}
	var out struct {
		Versions []struct {
			ID     string `xml:"launchTemplateId"`
			Name   string `xml:"launchTemplateName"`
			Number int64  `xml:"versionNumber"`
			Image  string `xml:"launchTemplateData>imageId"`
		} `xml:"launchTemplateVersionSet>item"`
	}
	err := NewAWS(c.target.ConfigFor("AWS_ENDPOINT_URL_EC2"), time.Now).CallQuery(ctx, ec2, form, &out)
	if err == nil && len(out.Versions) == 0 {
		err = cluster.Errorf("InvalidLaunchTemplateId.VersionNotFound", "Launch template %s%s has no version %s",
			ref.ID, ref.Name, ref.Version)
	}
	if err != nil {
		return nil, c.awsError(operation, awsapi.CallError(err))
	}
	v := out.Versions[0]
	return &cluster.LaunchTemplate{ID: v.ID, Name: v.Name, Version: v.Number, Image: v.Image}, nil
}
