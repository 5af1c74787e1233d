#!/bin/bash
# A web server with two threads for requests, three requests, and the end of it. On an
# address of its own, so that others may do the same.
address=127.$((RANDOM % 250 + 1)).$((RANDOM % 250)).$((RANDOM % 250 + 1)):18080
modules=/usr/lib/apache2/modules
mkdir -p html
echo 'It works.' >html/index
cat >apache.conf <<END
LoadModule mpm_worker_module $modules/mod_mpm_worker.so
LoadModule authz_core_module $modules/mod_authz_core.so
ServerRoot "$PWD"
DefaultRuntimeDir "$PWD"
ServerName localhost
PidFile "$PWD/httpd.pid"
Listen $address
ErrorLog "$PWD/error.log"
DocumentRoot "$PWD/html"
ServerLimit 1
StartServers 1
ThreadsPerChild 2
MaxRequestWorkers 2
MinSpareThreads 1
MaxSpareThreads 2
END
{
	for ((tries = 0; tries < 600; tries++)); do
		curl -s "http://$address/index" && break
		sleep 0.1
	done
	curl -s "http://$address/indx" | head -n 3
	curl -s "http://$address/index"
	kill -TERM $$
} &
exec apache2 -X -f "$PWD/apache.conf"
