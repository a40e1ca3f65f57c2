// Package ec2 simulates the part of EC2 that Auto Scaling groups launch from: machine types, images
// and launch templates.
package ec2
