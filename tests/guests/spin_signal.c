#include <stdio.h>
#include <signal.h>
#include <unistd.h>
#include <sys/time.h>
#include <string.h>
volatile sig_atomic_t flag; long count; double d=1;
void h(int s){ flag++; }
int main(int c,char**v){ struct sigaction sa={.sa_handler=h}; sigaction(SIGALRM,&sa,0); struct itimerval it={{0,0},{0,100000}}; 
 for(int k=0;k<3;k++){ flag=0; setitimer(ITIMER_REAL,&it,0); if(v[1][0]=='p') while(!flag); else if(v[1][0]=='n') while(!flag) count++; else if(v[1][0]=='l'){ long x=0; while(!flag) x+=3; count=x;} else if (v[1][0]=='d') while(!flag) { d=d*1.0000001; count++; } else { static char b[65536]; while(!flag){ memset(b,count,sizeof b); count++; } }
 printf("%ld %g\n",count,d);} }
