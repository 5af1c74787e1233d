# apache_files MPM PORT [LINES]: a configuration and what is served.
apache_files() {
	local modules=/usr/lib/apache2/modules
	mkdir -p html cgi
	seq 200 > html/small
	head -c 300000 /dev/zero | tr '\0' 'x' > html/large
	printf '#!/bin/sh\nprintf "Content-Type: text/plain\\n\\nyou asked for $QUERY_STRING\\n"\n' > cgi/answer
	chmod 755 cgi/answer
	cat > apache.conf <<-END
		LoadModule mpm_$1_module $modules/mod_mpm_$1.so
		LoadModule authz_core_module $modules/mod_authz_core.so
		ServerRoot "$PWD"
		DefaultRuntimeDir "$PWD"
		ServerName localhost
		PidFile "$PWD/httpd.pid"
		Listen 127.0.0.1:$2
		ErrorLog "$PWD/error.log"
		DocumentRoot "$PWD/html"
		MaxConnectionsPerChild 0
		MaxKeepAliveRequests 0
		KeepAliveTimeout 60
		EnableSendfile On
		${3-}
	END
}
